"""Naive twins of the kernels of slack."""
