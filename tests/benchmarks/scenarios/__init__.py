"""The scenarios, by subject; each module registers its own."""
