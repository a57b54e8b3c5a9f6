"""Which nodes can be removed: those whose pods all fit, at the same time, on nodes that stay. `decision.SCALE_DOWN` is
its entry in the table of decisions. State between loops travels as `ScaleDownState`; none is kept here.
"""
