"""Pages of sweeps: who won what, and how sure that is."""
