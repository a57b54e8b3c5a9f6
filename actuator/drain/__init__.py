"""Draining nodes: which pods go, and how they are made to."""
