"""Mixed calls for a long time, to find out whether a service grows: `python -m tests.soak`."""
