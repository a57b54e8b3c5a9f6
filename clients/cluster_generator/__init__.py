"""Synthetic clusters: deterministic in their seed, of any size, as Kubernetes objects.

Decides what a plausible cluster looks like: node groups over zones, several hundred workloads, budgets, a few pods
that cannot be moved. Reads no real cluster and no clock; its only randomness is the seed. Figures measured on its
clusters must be labelled synthetic.
"""

from trimtab.clients.cluster_generator.layout import SyntheticCluster, generate
from trimtab.clients.cluster_generator.objects import objects, write_list
from trimtab.clients.cluster_generator.shape import ClusterShape

__all__ = ["ClusterShape", "SyntheticCluster", "generate", "objects", "write_list"]
