"""The command line: parse, call once, print."""
