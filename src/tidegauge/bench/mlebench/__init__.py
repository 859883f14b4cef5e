"""Competitions of a checkout of MLE-bench: its own graders, asked from outside.

Nothing of a checkout is imported here. Its graders and preparers run in its own interpreter, in a
sandbox (`worker`, `client`); everything else is read from its files.
"""
