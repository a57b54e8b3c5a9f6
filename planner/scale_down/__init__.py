"""Which nodes go: all their pods, at the same time, placed on nodes that stay.

`planner.scale_down.decision.SCALE_DOWN` is its entry in the table of decisions. Eligibility, drainability (one rule a
file), the search over sets of nodes, the selection of what goes now and the report are packages of their own; what is
remembered travels as `ScaleDownState`, nothing is kept here.
"""
