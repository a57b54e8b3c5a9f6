"""Compiled loops over the texts of a snapshot."""
