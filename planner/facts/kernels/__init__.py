"""Compiled loops of the facts."""
