"""Kernels of scale-up."""
