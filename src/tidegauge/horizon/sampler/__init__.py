"""Coordinates and chains: speed, never the posterior. Imports density, model and data."""
