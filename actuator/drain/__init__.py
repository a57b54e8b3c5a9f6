"""Draining nodes: which pods are evicted, and how."""
