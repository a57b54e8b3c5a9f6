"""The output of scale-up: its answer, and sentences for people."""
