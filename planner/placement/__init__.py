"""Placement of pods: hints from the last loop, the search for a node, and the reasons if there is none."""
