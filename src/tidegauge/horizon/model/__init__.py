"""What is fitted, as data, NumPy and PyMC; samples nothing. Imports data and priors."""
