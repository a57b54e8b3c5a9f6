"""How long a test waits for what happens at once, unless the machine is busy."""

LIMIT_S = 100.0
"""Longest wait, seconds. Less than the suite's limit for a test, so that the test says what did not happen."""
