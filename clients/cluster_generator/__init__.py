"""Synthetic clusters: deterministic in their seed, of any size, as Kubernetes objects.

Decides what a plausible cluster looks like: node groups over zones, several hundred workloads, budgets, a few pods
that cannot be moved. Never reads a real cluster, a clock or chance other than its seed. What it makes is synthetic:
every figure measured on it must say so.
"""

from clients.cluster_generator.layout import Cluster, generate
from clients.cluster_generator.objects import objects, write_list
from clients.cluster_generator.shape import ClusterShape

__all__ = ["Cluster", "ClusterShape", "generate", "objects", "write_list"]
