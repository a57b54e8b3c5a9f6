"""VolumeRestrictions (ReadWriteOncePod) and NodeVolumeLimits: counters of claims in use and of attached volumes.

Contract: these depend on each pod's own volumes, not on its class; pods without such volumes have row -1. Two
mounts of one volume count once on a node. Only drivers that some node limits are counted.
Source: plugins volumerestrictions and nodevolumelimits, v1.37.2.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.label_columns import number_values
from trimtab.planner.model.execution import RequestLimits
from trimtab.planner.model.values import MountedVolume, NodeTraits
from trimtab.planner.predicates.counter_kind import BuildContext, CountedPredicate, CounterKind
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1.reason_pb2 import PredicateReason

UNLIMITED: Final = (1 << 31) - 1


class VolumeCounters(NamedTuple):
    """X rows of pods with volumes that count.

    row : int32[P] or -1; claim_offsets : int32[X+1]; claim : int32[…] ReadWriteOncePod claims that several pods mount;
    claim_used : int32[C] placed pods that mount a claim; attach_offsets : int32[X+1]; attach : int32[…, 2] (driver,
    shared volume or -1), by driver; attached : int32[drivers, N] volumes on a node; limit : int32[drivers, N];
    mounted : int32[shared volumes, N] placed pods that mount a shared volume on a node.
    """

    row: Int32
    claim_offsets: Int32
    claim: Int32
    claim_used: Int32
    attach_offsets: Int32
    attach: Int32
    attached: Int32
    limit: Int32
    mounted: Int32


class VolumeBuilder:
    """Builds the counters of all volumes of a snapshot."""

    def __init__(self, context: BuildContext) -> None:
        self._context = context

    def build(self) -> VolumeCounters:
        """Return the counters, all 0. O(volumes + mounts + N)."""
        context = self._context
        snapshot, pods = context.snapshot, context.snapshot.pods
        return _counters(
            snapshot.volumes, context.pod_count, pods.volume_pod, pods.volume, context.traits, context.limits
        )


VOLUMES: Final = CounterKind(
    "volumes",
    cost=3,
    builder=VolumeBuilder,
    written=("claim_used", "attached", "mounted"),
    of_nodes=("limit",),
    of_pods=("row",),
)
EXCLUSIVE_CLAIMS: Final = CountedPredicate((PredicateReason.VOLUME_RESTRICTED,), VOLUMES)
ATTACH_LIMITS: Final = CountedPredicate((PredicateReason.VOLUME_LIMIT_EXCEEDED,), VOLUMES)


def _counters(
    volumes: tuple[MountedVolume, ...],
    pod_count: int,
    pod: Int32,
    volume: Int32,
    traits: tuple[NodeTraits, ...],
    limits: RequestLimits,
) -> VolumeCounters:
    drivers = sorted({driver for node_traits in traits for driver, _ in node_traits.attach_limits})
    driver_of = {driver: at for at, driver in enumerate(drivers)}
    claims = _identities([v.id if v.read_write_once_pod else "" for v in volumes])
    handles = _identities([(v.driver, v.handle or v.id) if v.driver in driver_of else "" for v in volumes])
    driver = np.fromiter((driver_of.get(v.driver, -1) for v in volumes), np.int64, len(volumes))
    claim_pods = _distinct(pod, claims[volume] if len(volume) else volume)
    handle_pods = _distinct(pod, handles[volume] if len(volume) else volume)
    handle_driver = np.zeros(int(handles.max(initial=-1)) + 1, np.int64)
    handle_driver[handles[handles >= 0]] = driver[handles >= 0]
    # A claim mounted by one pod only never conflicts.
    claim_users = np.bincount(claim_pods[1], minlength=1)
    several = claim_users[claim_pods[1]] > 1
    claim_pods = (claim_pods[0][several], claim_pods[1][several])
    shared = _renumbered(np.bincount(handle_pods[1], minlength=len(handle_driver)) > 1)
    having = np.unique(np.concatenate([claim_pods[0], handle_pods[0]]))
    row = np.full(pod_count, -1, np.int32)
    row[having] = np.arange(len(having), dtype=np.int32)
    claim_number = _renumbered(claim_users > 1)
    claim_order = np.lexsort((claim_pods[1], claim_pods[0]))
    of_handle = handle_driver[handle_pods[1]]
    attach_order = np.lexsort((handle_pods[1], of_handle, handle_pods[0]))
    attach = np.stack([of_handle, shared[handle_pods[1]]], axis=1)[attach_order].astype(np.int32).reshape(-1, 2)
    nodes = len(traits)
    limits.reserve(4 * nodes * (2 * len(drivers) + int(shared.max(initial=-1)) + 1), "volumes times nodes")
    return VolumeCounters(
        row,
        _offsets(row[claim_pods[0]], len(having)),
        claim_number[claim_pods[1]][claim_order].astype(np.int32),
        np.zeros(int(claim_number.max(initial=-1)) + 1, np.int32),
        _offsets(row[handle_pods[0]], len(having)),
        np.ascontiguousarray(attach),
        np.zeros((len(drivers), nodes), np.int32),
        _limits(traits, driver_of),
        np.zeros((int(shared.max(initial=-1)) + 1, nodes), np.int32),
    )


def _identities(keys: list[str] | list[str | tuple[str, str]]) -> NDArray[np.int64]:
    """Give equal keys the same number; -1 for ""."""
    number, distinct = number_values(list(keys))
    renumbered = _renumbered(np.array([key != "" for key in distinct], np.bool_))
    return renumbered[number] if len(distinct) else np.zeros(0, np.int64)


def _renumbered(is_kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    out = np.full(len(is_kept), -1, np.int64)
    out[is_kept] = np.arange(int(is_kept.sum()))
    return out


def _distinct(pod: Int32, identity: NDArray[np.int64] | Int32) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct pairs of pod and identity, identities -1 left out."""
    has_identity = identity >= 0
    span = int(identity.max(initial=0)) + 1
    keys = np.unique(pod[has_identity].astype(np.int64) * span + identity[has_identity])
    return keys // span, keys % span


def _offsets(rows: Int32, count: int) -> Int32:
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return offsets


def _limits(traits: tuple[NodeTraits, ...], driver_of: dict[str, int]) -> Int32:
    out = np.full((len(driver_of), len(traits)), UNLIMITED, np.int32)
    for node, node_traits in enumerate(traits):
        for driver, count in node_traits.attach_limits:
            out[driver_of[driver], node] = min(count, UNLIMITED)
    return out
