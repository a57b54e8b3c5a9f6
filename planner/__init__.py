"""Trimtab planner."""
