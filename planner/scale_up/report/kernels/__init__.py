"""Kernels of what scale-up says."""
