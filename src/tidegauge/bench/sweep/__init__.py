"""Many runs: competitions x agents x seeds, on one machine or a cluster, and what they show.

The plan is written first and is the only truth: a cell of it is done when its record is.
"""
