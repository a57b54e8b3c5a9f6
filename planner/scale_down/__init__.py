"""Which nodes can be removed: those whose pods all fit, at the same time, on nodes that stay.

`planner.scale_down.decision.SCALE_DOWN` is its entry in the table of decisions. Eligibility, drainability (one rule a
file), the search over sets of nodes, the selection of what goes now and the report are separate packages. State between
loops travels as `ScaleDownState`; none is kept here.
"""
