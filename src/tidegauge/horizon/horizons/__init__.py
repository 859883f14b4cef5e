"""From success curves to minutes. Imports model and data, and results of fits."""
