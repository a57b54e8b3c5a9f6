"""The objects of a cluster as they change, and the snapshots and deltas that follow from them."""
