"""`trimtab explain`: why a pod is not scheduled, why a node is not removed, in words.

Every yes and no is the planner's own; this package only looks up, in the snapshot that the planner was given, the
values that a reader wants to see beside it (which taint, how much is free). It never decides.
"""
