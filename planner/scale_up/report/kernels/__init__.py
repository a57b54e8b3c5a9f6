"""Kernels of scale-up's report."""
