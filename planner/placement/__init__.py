"""Placement of pods: hints of the last loop, the search for a node, and the reasons without one."""
