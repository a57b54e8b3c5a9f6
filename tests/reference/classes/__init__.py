"""Naive twins: the planner's answers, computed slowly and plainly."""
