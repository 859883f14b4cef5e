"""Folders in, folders out. Imports every other room."""
