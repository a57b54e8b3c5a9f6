"""Compiled loops of scale-up."""
