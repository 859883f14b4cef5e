"""Competitions as data plus functions, and the registry that finds them."""
