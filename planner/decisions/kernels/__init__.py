"""Compiled loops of the decisions."""
