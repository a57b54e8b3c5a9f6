"""The actuator: carries out and records deletions and scale-ups, and never decides what to remove or add."""
