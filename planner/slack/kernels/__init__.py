"""Compiled loops of slack."""
