"""Gangs in scale-up: each gets places for its minimum, on existing and new nodes together, or none at all."""
