"""The Bayesian engine: priors, sampling, diagnostics, stored fits."""
