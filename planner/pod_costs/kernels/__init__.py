"""Compiled loops of pod deletion costs."""
