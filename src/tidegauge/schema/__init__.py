"""The files that the capabilities exchange: run records, OSIC tables, submissions."""
