"""`trimtab explain`: why a pod is not scheduled, why a node is not removed, in words.

Every yes and no comes from the planner; this package only looks up details for the reader in the planner's snapshot
(which taint, how much is free). It never decides.
"""
