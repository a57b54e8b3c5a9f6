"""Loops of the scale-down decision over pods and nodes; each module has a naive twin in tests/reference."""
