"""A decision as a stranger would add it: which nodes have room. The tree has no such decision; tests add it."""
