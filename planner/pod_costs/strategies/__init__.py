"""How pods are ranked."""
