"""Placement: nodes in groups and zones, and each pod on a node that it fits.

Pure; deterministic in the shape, of which the seed is part. Arrays: N nodes, P pods, W workloads.
Every placement respects free resources, taints, node affinity, spread and anti-affinity: a scheduler could have made
the cluster. Uneven on purpose: some nodes are nearly idle.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.clients.cluster_generator.shape import (
    PODS_PER_NODE,
    POOLS,
    RESERVED_CPU_MILLI,
    RESERVED_MEMORY_BYTES,
    ClusterShape,
)
from trimtab.clients.cluster_generator.workloads import Workload, daemons, draw

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]


class NodeLayout(NamedTuple):
    """pool, zone : int32[N], index into POOLS and of the zone; free : int64[N, 3], cpu in milli-cores, bytes, pods."""

    pool: Int32
    zone: Int32
    free: Int64


class SyntheticCluster(NamedTuple):
    """A synthetic cluster. workload, ordinal, node : int32[P]; node -1 = pending; sorted by (workload, ordinal).
    shape : what was asked for; nodes : their zones and sizes; workloads : the controllers that pods refer to.
    """

    shape: ClusterShape
    nodes: NodeLayout
    workloads: tuple[Workload, ...]
    workload: Int32
    ordinal: Int32
    node: Int32


def generate(shape: ClusterShape) -> SyntheticCluster:
    """Build the cluster. O(W N) time, a second for 5,000 nodes."""
    random = np.random.Generator(np.random.PCG64(shape.seed))
    nodes = _nodes(shape)
    allocatable = nodes.free.sum(axis=0)
    common = daemons(shape.nodes)
    for daemon in common:
        nodes.free[:] -= _request(daemon)
    fixed = allocatable - nodes.free.sum(axis=0)
    room = (
        max(float(allocatable[0]) * 0.01, shape.utilization * float(allocatable[0]) - float(fixed[0])),
        max(float(allocatable[1]) * 0.01, 0.85 * shape.utilization * float(allocatable[1]) - float(fixed[1])),
    )
    drawn = draw(shape, random, room)
    popularity = 0.12 + 1.9 * random.random(shape.nodes) ** 1.6
    placed = [np.arange(shape.nodes, dtype=np.int32) for _ in common]
    placed += [_place(workload, nodes, popularity, random) for workload in drawn]
    waiting = _spread_pending(shape.pending_pods, len(drawn))
    placed[len(common) :] = [
        np.concatenate([where, np.full(count, -1, np.int32)])
        for where, count in zip(placed[len(common) :], waiting, strict=True)
    ]
    counts = [len(where) for where in placed]
    return SyntheticCluster(
        shape=shape,
        nodes=nodes,
        workloads=(*common, *drawn),
        workload=np.repeat(np.arange(len(placed), dtype=np.int32), counts),
        ordinal=np.concatenate([np.arange(count, dtype=np.int32) for count in counts]),
        node=np.concatenate(placed).astype(np.int32),
    )


def group_name(pool: int, zone: int) -> str:
    """Return the id of the node group of a pool in a zone."""
    return f"{POOLS[pool].name}-{zone_name(zone)}"


def zone_name(zone: int) -> str:
    """Return the name of a zone: a, b, … z, a1, …."""
    return chr(ord("a") + zone % 26) + (str(zone // 26) if zone >= 26 else "")


def node_name(cluster: SyntheticCluster, node: int) -> str:
    """Return the name of a node; it begins with its group's."""
    return f"{group_name(int(cluster.nodes.pool[node]), int(cluster.nodes.zone[node]))}-{node:05d}"


def _nodes(shape: ClusterShape) -> NodeLayout:
    """Distribute the nodes over pools by their shares, and over zones in turn."""
    bounds = np.cumsum([pool.share for pool in POOLS])
    pool = np.searchsorted(bounds, (np.arange(shape.nodes) + 0.5) / shape.nodes).astype(np.int32)
    pool = np.minimum(pool, len(POOLS) - 1).astype(np.int32)
    zone = (np.arange(shape.nodes) % shape.zones).astype(np.int32)
    room = [
        (one.cpu_milli - RESERVED_CPU_MILLI, one.memory_bytes - RESERVED_MEMORY_BYTES, PODS_PER_NODE) for one in POOLS
    ]
    return NodeLayout(pool, zone, np.array(room, np.int64)[pool])


def _request(workload: Workload) -> Int64:
    """Return the requests of one pod: int64[3]."""
    return np.array([workload.cpu_milli, workload.memory_bytes, 1], np.int64)


def _place(
    workload: Workload, nodes: NodeLayout, popularity: NDArray[np.float64], random: np.random.Generator
) -> Int32:  # fmt: skip
    """Put the replicas on nodes, popular ones first; returns int32[placed], fewer where resources are short."""
    tainted = np.array([pool.taint is not None for pool in POOLS])[nodes.pool]
    suitable = tainted if workload.tainted else ~tainted
    if workload.zones:
        suitable = suitable & np.isin(nodes.zone, workload.zones)
    if not workload.spread:
        return _fill(workload, nodes, suitable, (popularity, random), workload.replicas)
    zones = np.unique(nodes.zone[suitable])
    # Even shares keep maxSkew 1; a zone that runs out of resources limits the others too.
    share, rest = divmod(workload.replicas, len(zones))
    wanted = [share + (i < rest) for i in range(len(zones))]
    parts = [
        _fill(workload, nodes, suitable & (nodes.zone == zone), (popularity, random), count)
        for zone, count in zip(zones, wanted, strict=True)
    ]
    fewest = min(len(part) for part in parts)
    for part in parts:
        np.add.at(nodes.free, part[fewest + 1 :], _request(workload))
    return np.concatenate([part[: fewest + 1] for part in parts])


def _fill(
    workload: Workload,
    nodes: NodeLayout,
    suitable: Bool,
    chance: tuple[NDArray[np.float64], np.random.Generator],
    count: int,
) -> Int32:
    """Place `count` replicas round by round, each round at most one to a node; takes their resources; int32[placed]."""
    popularity, random = chance
    request = _request(workload)
    chosen: list[Int32] = []
    while count > 0:
        able = np.flatnonzero(suitable & (nodes.free >= request).all(axis=1))
        if len(able) == 0:
            break
        # Weighted sampling without replacement (Efraimidis and Spirakis): smallest exponential waiting times.
        waits = -np.log1p(-random.random(len(able))) / popularity[able]
        some = able[np.argsort(waits, kind="stable")[: min(count, max(1, len(able) // 2))]].astype(np.int32)
        nodes.free[some] -= request
        chosen.append(some)
        count -= len(some)
        if workload.anti_affinity:
            break
    return np.concatenate(chosen) if chosen else np.zeros(0, np.int32)


def _spread_pending(pods: int, workloads: int) -> list[int]:
    """Distribute pending pods over workloads in turn; one number for each workload."""
    share, rest = divmod(pods, workloads)
    return [share + (i < rest) for i in range(workloads)]
