"""Horizons over release date. Imports methods and all before it."""
