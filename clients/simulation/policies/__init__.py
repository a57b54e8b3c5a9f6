"""Settings that come with the simulator, by name."""
