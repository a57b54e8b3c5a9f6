"""Facts that follow from a snapshot, or from it and the current time, and are used by more than one decision."""
