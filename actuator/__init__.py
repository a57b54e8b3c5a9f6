"""The actuator: carries deletions and growth out, remembers them, never decides what to remove or add."""
