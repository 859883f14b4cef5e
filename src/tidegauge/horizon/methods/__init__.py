"""Every way from a design to an estimate. Imports horizons, sampler, model and data."""
