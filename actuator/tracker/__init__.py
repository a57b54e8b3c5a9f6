"""The pure state machine of node deletions: events in, instructions out. No clock, no I/O, no logging."""
