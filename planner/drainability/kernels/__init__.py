"""Compiled loops of limits."""
