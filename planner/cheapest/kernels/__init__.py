"""Compiled loops of the cheapest plan."""
