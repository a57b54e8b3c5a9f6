"""Example scenarios."""
