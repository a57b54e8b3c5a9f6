"""Mixed calls for a long time: does a service grow? `python -m tests.soak`."""
