"""Compiled loops of the selection."""
