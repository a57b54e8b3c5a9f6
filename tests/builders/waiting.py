"""How long a test waits for something that happens immediately unless the machine is busy."""

LIMIT_S = 100.0
"""Longest wait, seconds. Less than the suite's limit per test, so the test itself reports what did not happen."""
