"""Data with a known truth, made by ourselves."""
