"""Values that all of the planner speaks of. No I/O, no clock, no randomness; imports nothing of the planner."""
