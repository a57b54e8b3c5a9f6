"""What scale-up says: its answer, and sentences for people."""
