"""Search for sets of nodes that can go together."""
