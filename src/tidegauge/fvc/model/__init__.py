"""The hierarchical Bayesian model of FVC: data, PyMC specification and compiled density."""
