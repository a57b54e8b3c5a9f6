"""Clouds: one interface, one package for each cloud; only that package talks to it."""
