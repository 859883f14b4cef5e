"""Charts and self-contained pages."""
