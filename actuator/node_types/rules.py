"""Published rules for the resources that a node reserves: capacity less allocatable. Decides only the rules;
`trimtab.actuator.node_types.estimate` finds the one that a cluster follows. Each includes the kubelet's threshold of
eviction. Memory in bytes, cpu in milli-cores. Pure.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from trimtab.actuator.tracker.states import NodeAmounts

MIB: Final = 1 << 20
GIB: Final = 1 << 30
# Source: Kubernetes, "Reserve Compute Resources for System Daemons": `memory.available` of `--eviction-hard`.
EVICTION_BYTES: Final = 100 * MIB
# Source: kubelet, `--max-pods`.
MAX_PODS: Final = 110
# Share of the memory that AWS machines hide from their operating system. Source: Karpenter, VM_MEMORY_OVERHEAD_PERCENT.
AWS_HIDDEN_SHARE: Final = 0.075
# Share of each further slice: of the first core 6 %, of the second 1 %, of two more 0.5 %, then 0.25 %.
_CPU_SLICES: Final = ((1000, 0.06), (1000, 0.01), (2000, 0.005), (float("inf"), 0.0025))
_GKE_MEMORY_SLICES: Final = (
    (4 * GIB, 0.25),
    (4 * GIB, 0.20),
    (8 * GIB, 0.10),
    (112 * GIB, 0.06),
    (float("inf"), 0.02),
)
_AKS_CPU: Final = ((0, 0), (1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740))


class Reserved(NamedTuple):
    """The resources that a node withholds from pods. `cpu_milli` : milli-cores; `memory_bytes` : bytes."""

    cpu_milli: float
    memory_bytes: float


Rule = Callable[[NodeAmounts, int], Reserved]
"""A rule: takes a node's resources, and the number of pods that its machine's addresses allow (0 = not known)."""


def kubelet(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what the kubelet reserves without configuration. Source: as `EVICTION_BYTES`."""
    del node, address_pods
    return Reserved(0.0, EVICTION_BYTES)


def eks(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what nodes of Amazon EKS reserve. Source: amazon-eks-ami, `bootstrap.sh` and nodeadm."""
    pods = address_pods or node.pods or MAX_PODS
    return Reserved(_sliced(node.cpu_milli, _CPU_SLICES), (255 + 11 * pods) * MIB + EVICTION_BYTES)


def eks_own_pods(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return the same for nodes whose number of pods is configured."""
    return eks(node, node.pods or address_pods)


def gke(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what nodes of Google Kubernetes Engine reserve. Source: GKE, "Plan GKE Standard node sizes"."""
    del address_pods
    whole = node.memory_bytes
    memory = _sliced(whole, _GKE_MEMORY_SLICES) if whole >= GIB else 255 * MIB
    return Reserved(_sliced(node.cpu_milli, _CPU_SLICES), memory + EVICTION_BYTES)


def aks(node: NodeAmounts, address_pods: int) -> Reserved:
    """Return what nodes of Azure Kubernetes Service reserve from 1.29 on. Source: AKS, "Node resource reservations"."""
    pods = node.pods or address_pods or MAX_PODS
    memory = min((20 * pods + 50) * MIB, 0.25 * node.memory_bytes)
    return Reserved(_between(node.cpu_milli / 1000, _AKS_CPU), memory + EVICTION_BYTES)


RULES: Final[Sequence[Rule]] = (eks, eks_own_pods, gke, aks, kubelet)


def _sliced(whole: float, slices: Sequence[tuple[float, float]]) -> float:
    """Return the sum of the shares of each slice."""
    total = 0.0
    for size, share in slices:
        part = min(whole, size)
        total += part * share
        whole -= part
    return total


def _between(at: float, points: Sequence[tuple[float, float]]) -> float:
    """Return the value between points by linear interpolation; beyond the last, extrapolate from the last two."""
    pairs = list(pairwise(points))
    (left, low), (right, high) = next((pair for pair in pairs if at <= pair[1][0]), pairs[-1])
    return low + (high - low) * (at - left) / (right - left)
