"""The same log density, compiled with numba. Imports model and data."""
