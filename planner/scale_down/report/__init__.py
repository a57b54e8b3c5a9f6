"""Encode the decision: the answer, with a reason for each node that stays."""
