"""Scenarios to begin with."""
