"""Upkeep of node groups, every 10 s: failed activities, nodes that do not join, what new nodes will have."""
