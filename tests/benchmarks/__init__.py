"""Benchmarks: `python -m tests.benchmarks`. Every timed answer is also checked; what is synthetic says so."""
