"""The requested shape of a synthetic cluster, and its machine types.

Units: cpu in milli-cores, memory in bytes, shares from 0 to 1. Shares of workloads count Deployments and StatefulSets.
"""

from dataclasses import dataclass
from typing import NamedTuple

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class ClusterShape:
    """Size and features of a synthetic cluster; the defaults are the demo's.

    nodes: number of nodes, at least 12.
    pods: number of pods, DaemonSet pods included; met within a few per cent.
    workloads: number of Deployments, StatefulSets and Jobs; 0 = by size, several hundred.
    utilization: requested cpu as a share of allocatable cpu, over the whole cluster.
    seed: same shape and seed, same cluster, byte for byte.
    zones: number of zones.
    tainted_share: share of workloads bound to tainted nodes, with the toleration and the selector.
    affinity_share: share of workloads with required node affinity to some zones.
    spread_share: share of workloads with a DoNotSchedule spread over zones, maxSkew 1.
    anti_affinity_share: share of workloads with required anti-affinity to themselves on a host.
    budget_share: share of workloads with a PodDisruptionBudget.
    unmovable_share: share of workloads whose pods block a drain, each for its own reason.
    pending_pods: pods that are on no node yet.
    """

    nodes: int = 300
    pods: int = 6_000
    workloads: int = 0
    utilization: float = 0.4
    seed: int = 1
    zones: int = 3
    tainted_share: float = 0.08
    affinity_share: float = 0.08
    spread_share: float = 0.0
    anti_affinity_share: float = 0.0
    budget_share: float = 0.3
    unmovable_share: float = 0.03
    pending_pods: int = 0

    def __post_init__(self) -> None:
        """Check that a cluster can have this shape. Errors: ValueError."""
        if self.nodes < 12 or self.zones < 1:
            raise ValueError("a synthetic cluster needs at least 12 nodes and one zone")
        if self.pods < 4 * self.nodes:
            raise ValueError(
                f"{self.nodes} nodes need at least {4 * self.nodes} pods, three of each node are DaemonSets'"
            )
        if not 0.05 <= self.utilization <= 0.9:
            raise ValueError("utilization must lie between 0.05 and 0.9")

    @property
    def workload_count(self) -> int:
        """Return the number of workloads; by default about 300 on 300 nodes, 800 on 5,000, 1,800 on 50,000."""
        return self.workloads or min(round(40 * self.nodes**0.35), self.pods // 12)


class GeneratedPool(NamedTuple):
    """A kind of machine; there is one node group of it in each zone. name : of the pool; instance_type : as the label
    has it; share : of all nodes, 0 to 1; cpu_milli, memory_bytes : capacity of a node; price_per_hour : of a node;
    taint : key and value, None = none.
    """

    name: str
    instance_type: str
    share: float
    cpu_milli: int
    memory_bytes: int
    price_per_hour: float
    taint: tuple[str, str] | None


POOLS = (
    GeneratedPool("general", "m8", 0.62, 8_000, 32 * GIB, 0.38, None),
    GeneratedPool("compute", "c16", 0.15, 16_000, 32 * GIB, 0.68, None),
    GeneratedPool("memory", "r8", 0.15, 8_000, 64 * GIB, 0.50, None),
    GeneratedPool("batch", "m16", 0.08, 16_000, 64 * GIB, 0.77, ("dedicated", "batch")),
)
"""Synthetic, modelled on what clouds sell; the last is tainted."""

RESERVED_CPU_MILLI, RESERVED_MEMORY_BYTES, PODS_PER_NODE = 120, 1 * GIB, 110
"""What the kubelet reserves of each machine, and Kubernetes' default limit of pods."""
