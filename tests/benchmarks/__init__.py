"""Benchmarks: `python -m tests.benchmarks`. Every timed answer is also checked; synthetic data is marked as such."""
