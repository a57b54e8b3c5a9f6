"""Naive twins: the planner's answers, computed in the simplest way, however slow."""
