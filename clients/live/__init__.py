"""A live cluster as snapshots and deltas: list and watch in Kubernetes' own protobuf encoding.

`LiveCluster` is the entry point. The extra `trimtab[kubernetes]` is needed only for configuration and authentication.
"""
