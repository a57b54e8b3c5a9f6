"""A live cluster as snapshots and deltas: list and watch in Kubernetes' own protobuf encoding.

`LiveCluster` is the way in. Needs the extra `trimtab[kubernetes]` for configuration and authentication only.
"""
