"""Many fits: comparison, multiverse, sensitivity. Imports trend and all before it."""
