"""Compiled loops of the placement."""
