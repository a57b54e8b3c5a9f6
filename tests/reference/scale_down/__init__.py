"""Naive twins of the scale-down kernels."""
