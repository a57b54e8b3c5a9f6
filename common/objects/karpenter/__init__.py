"""Clusters of Karpenter: each NodePool with each offering of machines becomes a node group."""
