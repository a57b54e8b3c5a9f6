"""Compiled loops that search and selection share."""
