"""Values used in the whole planner. No I/O, no clock, no randomness; imports no other package of the planner."""
