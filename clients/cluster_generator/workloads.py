"""The workloads of a synthetic cluster: how many replicas, how large, with which constraints.

Pure: a function of the shape and of its random numbers. Units: cpu in milli-cores, memory in bytes.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trimtab.clients.cluster_generator.shape import MIB, ClusterShape

NAMESPACES = (
    "analytics", "billing", "catalog", "checkout", "identity", "inventory", "mail", "media", "mobile", "orders",
    "payments", "platform", "pricing", "search", "shipping", "support",
)  # fmt: skip
SERVICES = (
    "api", "backend", "cache", "consumer", "frontend", "gateway", "indexer", "ingest", "queue", "relay", "render",
    "report", "router", "sync", "worker",
)  # fmt: skip
DAEMONS = (
    ("kube-system", "network-agent", 50, 64),
    ("kube-system", "proxy", 40, 48),
    ("monitoring", "exporter", 20, 32),
)
"""Namespace, name, cpu in milli-cores, memory in MiB of each DaemonSet."""
UNMOVABLE = ("bare", "local-storage", "not-safe-to-evict", "system", "tight-budget")
"""Ways in which a pod blocks the drain of its node, used in turn."""


@dataclass(frozen=True)
class Workload:
    """One controller and what all its pods have in common; `kind` "" means bare pods.

    zones: zones that required node affinity names, () = any; budget: `maxUnavailable` as written, "" = no budget;
    unmovable: one of `UNMOVABLE` or "". namespace, name : of the controller; replicas : its pods; cpu_milli,
    memory_bytes : requests of each; tainted: its pods are for nodes with a taint; spread, anti_affinity: whether they
    have such a constraint.
    """

    kind: str
    namespace: str
    name: str
    replicas: int
    cpu_milli: int
    memory_bytes: int
    tainted: bool = False
    zones: tuple[int, ...] = ()
    spread: bool = False
    anti_affinity: bool = False
    budget: str = ""
    unmovable: str = ""


def daemons(nodes: int) -> list[Workload]:
    """Return the DaemonSets, which run on every node."""
    return [Workload("DaemonSet", space, name, nodes, cpu, memory * MIB) for space, name, cpu, memory in DAEMONS]


def system() -> list[Workload]:
    """Return the cluster's own services: the first with a budget, the second without one, which therefore blocks."""
    return [
        Workload("Deployment", "kube-system", "dns", 4, 100, 128 * MIB, budget="1"),
        Workload("Deployment", "kube-system", "metrics", 2, 100, 200 * MIB, unmovable="system"),
    ]


def draw(shape: ClusterShape, random: np.random.Generator, room: tuple[float, float]) -> list[Workload]:
    """Draw workloads whose pods request about `room` (cpu in milli-cores, memory in bytes) in total."""
    count = shape.workload_count
    fixed = system()
    pods = shape.pods - shape.pending_pods - sum(one.replicas for one in fixed) - len(DAEMONS) * shape.nodes
    replicas = _replicas(count, pods, random)
    cpu_milli = _scaled(0.2 + 2.5 * random.random(count) ** 3, replicas, room[0])
    memory_bytes = _scaled(0.3 + 2.0 * random.random(count) ** 2, replicas, room[1])
    chances = random.random((count, 6))
    drawn = []
    for i in range(count):
        workload = Workload(
            kind=_kind(chances[i, 0]),
            namespace=NAMESPACES[int(chances[i, 1] * len(NAMESPACES))],
            name=f"{SERVICES[i % len(SERVICES)]}-{i:03d}",
            replicas=int(replicas[i]),
            cpu_milli=max(5, round(cpu_milli[i] / 5) * 5),
            memory_bytes=max(16, round(memory_bytes[i] / MIB / 4) * 4) * MIB,
        )
        drawn.append(_constrained(workload, shape, chances[i, 2:]))
    return _with_unmovable(drawn, shape) + fixed


def _kind(chance: float) -> str:
    """Return a kind; three quarters are Deployments."""
    return "Deployment" if chance < 0.76 else "StatefulSet" if chance < 0.9 else "Job"


def _replicas(count: int, pods: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return heavy-tailed numbers of replicas, int64[count], each at least 1, with the sum `pods` where possible."""
    weights = (random.random(count) + 0.02) ** -0.9
    replicas = np.maximum(1, np.floor(weights / weights.sum() * pods)).astype(np.int64)
    order = np.argsort(-replicas, kind="stable")
    missing = pods - int(replicas.sum())
    replicas[order[: abs(missing) % count]] += np.sign(missing)
    replicas += missing // count if missing > 0 else 0
    at_least_one: NDArray[np.int64] = np.maximum(1, replicas)
    return at_least_one


def _scaled(sizes: NDArray[np.float64], replicas: NDArray[np.int64], room: float) -> NDArray[np.float64]:
    """Scale float64[count] until all replicas together fill `room`."""
    scaled: NDArray[np.float64] = sizes * (room / float((sizes * replicas).sum()))
    return scaled


def _constrained(workload: Workload, shape: ClusterShape, chances: NDArray[np.float64]) -> Workload:
    """Add the constraints that four random numbers select; Jobs get none, and no budget."""
    if workload.kind == "Job":
        return workload
    placement, pods, budget, size = (float(chance) for chance in chances)
    tainted = placement < shape.tainted_share
    affine = not tainted and placement < shape.tainted_share + shape.affinity_share
    zones = tuple(sorted({int(size * shape.zones), (int(size * shape.zones) + 1) % shape.zones})) if affine else ()
    spread = pods < shape.spread_share
    anti_affinity = not spread and pods < shape.spread_share + shape.anti_affinity_share
    # Small workloads may miss one pod, large ones a share.
    allowed = ("10%", "25%", "20%", "50%")[int(size * 4)] if workload.replicas >= 5 else "1"
    return replace(
        workload,
        tainted=tainted,
        zones=zones,
        spread=spread,
        anti_affinity=anti_affinity,
        budget=allowed if budget < shape.budget_share else "",
    )


def _with_unmovable(drawn: list[Workload], shape: ClusterShape) -> list[Workload]:
    """Turn some of the smallest workloads into ones whose pods block a drain, in each way in turn."""
    count = round(len(drawn) * shape.unmovable_share)
    smallest = sorted(range(len(drawn)), key=lambda i: (drawn[i].replicas, drawn[i].name))[:count]
    for turn, index in enumerate(sorted(smallest)):
        drawn[index] = _unmovable(drawn[index], UNMOVABLE[turn % len(UNMOVABLE)])
    return drawn


def _unmovable(workload: Workload, way: str) -> Workload:
    """Make the pods of a workload block a drain."""
    few = min(workload.replicas, 3)
    if way == "bare":
        return replace(workload, kind="", replicas=few, budget="", unmovable=way)
    if way == "system":
        return replace(workload, kind="Deployment", namespace="kube-system", replicas=few, budget="", unmovable=way)
    return replace(
        workload, kind="Deployment", replicas=few, budget="0" if way == "tight-budget" else "", unmovable=way
    )  # fmt: skip
