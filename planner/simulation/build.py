"""A simulation from a snapshot: classes, static matrix, counters, all placed pods counted.

Contract: pure. Pods that ended (Succeeded, Failed) and pods on unknown nodes take no part, as the scheduler's cache
has it. Injected pods start on no node. Cost: vectorised over pods, labels and nodes; loops over distinct specs,
terms, volumes.
"""

from typing import NamedTuple

import numpy as np
from trimtab.v1.reason_pb2 import PredicateReason
from trimtab.v1.snapshot_pb2 import PodPhase

from planner.classes.label_columns import LookedAt
from planner.classes.node_classes import NodeClasses, NodeSelectors, node_classes
from planner.classes.pod_classes import PodClasses, PodRows, pod_classes
from planner.classes.pod_matching import NamespaceRows, PodMatching
from planner.classes.scheduling_specs import SchedulingSpecs, scheduling_specs
from planner.predicates import disks, host_ports, inter_pod_affinity, node_affinity, node_unschedulable, volumes
from planner.predicates.order import static_bit
from planner.predicates.pod_volumes import volume_counters
from planner.predicates.presence import PresenceBuilder, PresenceCounters
from planner.predicates.resources import checked_resources, resource_counters
from planner.predicates.spread_counters import SpreadCounters
from planner.predicates.taints import untolerated
from planner.predicates.topologies import Topologies
from planner.predicates.topology_spread import SpreadNodes, spread_counters
from planner.simulation.injected_pods import InjectedPod, PodInput, pod_input
from planner.simulation.kernels import fill
from planner.simulation.state import MoveLog, SearchMemory, SimulationState
from planner.snapshot.columns import Bool, Int32, Int64, Snapshot, UInt8

_MOVES_FOR_EACH_POD, _MOVES_FOR_EACH_NODE, _SPARE_MOVES = 4, 4, 1024


class SimulationSettings(NamedTuple):
    """honor_spread_timeout : a pod older than its annotation `zalando.org/topology-spread-timeout` says has no spread
    constraints any more. Off by default: it needs a scheduler that does the same."""

    honor_spread_timeout: bool = False


_DEFAULTS = SimulationSettings()


class Simulation(NamedTuple):
    """A simulation with what explanations need.

    state : what kernels take; snapshot : what it was built from; pod_count : the snapshot's pods, injected ones follow;
    resources : names of the columns of `state.resources`; specs, pods, nodes : the classes.
    """

    state: SimulationState
    snapshot: Snapshot
    pod_count: int
    resources: tuple[str, ...]
    specs: SchedulingSpecs
    pods: PodClasses
    nodes: NodeClasses


def build_simulation(
    snapshot: Snapshot,
    injected: tuple[InjectedPod, ...] = (),
    now_s: int = 0,
    settings: SimulationSettings = _DEFAULTS,
) -> Simulation:
    """Build a simulation with every running pod on its node."""
    given = pod_input(snapshot, injected)
    specs = scheduling_specs(given.specs)
    mounts = (snapshot.pods.volume_pod, snapshot.pods.volume)
    volume_sets = volumes.volume_sets(snapshot.volumes, len(given.spec), mounts)
    rows = _pod_rows(given, specs, (volume_sets.of, now_s, settings))
    classes = pod_classes(given.strings, given.label_sets, rows, specs)
    nodes = _node_classes(snapshot, given, specs, volume_sets)
    excluded = node_affinity.excluded(specs.node_requirements, nodes.rows)
    bare = untolerated(specs.toleration_sets, nodes.taint_sets)[:, nodes.taint_set]
    blocked = _blocked(specs, classes, (nodes, volume_sets), (excluded, bare))
    matching = PodMatching(classes, _namespace_rows(snapshot, given, specs, classes))
    topologies = Topologies(given.strings, given.label_sets, snapshot.nodes.label_set)
    builder = PresenceBuilder(classes.size, topologies)
    host_ports.add_counters(builder, specs, classes)
    disks.add_counters(builder, specs, classes)
    inter_pod_affinity.add_counters(builder, topologies, specs, matching)
    spread = spread_counters(topologies, specs, matching, SpreadNodes(nodes, excluded, bare))
    presence = builder.build()
    names = checked_resources(snapshot.resources, specs)
    offered = (snapshot.resources, snapshot.nodes.allocatable)
    node_count = len(snapshot.nodes.name)
    state = SimulationState(
        classes.of.astype(np.int64),
        np.full(len(given.spec), -1, np.int64),
        given.pinned.astype(np.int64),
        nodes.of.astype(np.int64),
        np.zeros(node_count, np.uint8),
        blocked,
        _local_classes(presence, spread, topologies),
        resource_counters(names, offered, specs, classes),
        presence,
        spread,
        volume_counters(snapshot.volumes, len(given.spec), mounts, snapshot.nodes.attach_limits),
        move_log(len(given.spec), node_count),
        search_memory(classes.size, node_count),
    )
    fill(state, _placed(snapshot, given))
    return Simulation(state, snapshot, len(snapshot.pods.spec), names, specs, classes, nodes)


def _pod_rows(given: PodInput, specs: SchedulingSpecs, rest: tuple[Int32, int, SimulationSettings]) -> PodRows:
    volume_set, now_s, settings = rest
    expired = np.zeros(len(given.spec), np.bool_)
    if settings.honor_spread_timeout:
        timeout = specs.spread_timeout_s[given.spec]
        expired = (timeout >= 0) & (now_s - given.created_s > timeout)
    return PodRows(
        given.namespace,
        specs.of[given.spec],
        given.label_set,
        given.pinned,
        volume_set,
        given.terminating,
        given.gated,
        expired,
    )


def _node_classes(
    snapshot: Snapshot, given: PodInput, specs: SchedulingSpecs, volume_sets: volumes.VolumeSets
) -> NodeClasses:
    looked_at = LookedAt()
    volumes.note_zones(volume_sets.profiles, looked_at)
    terms = tuple(profile.terms for profile in volume_sets.profiles if profile.terms is not None)
    selectors = NodeSelectors(specs, terms, looked_at)
    return node_classes(given.strings, given.label_sets, snapshot.nodes, selectors)


def _blocked(
    specs: SchedulingSpecs,
    classes: PodClasses,
    at: tuple[NodeClasses, volumes.VolumeSets],
    by_distinct: tuple[Bool, Bool],
) -> UInt8:
    """Join the static predicates : uint8[S, K], one bit each."""
    nodes, volume_sets = at
    excluded, bare = by_distinct
    cordoned = node_unschedulable.excluded(specs.toleration_sets, nodes.unschedulable)
    tolerations, requirement = specs.tolerations[classes.spec], specs.node_requirement[classes.spec]
    by_tolerations = cordoned * np.uint8(static_bit(PredicateReason.NODE_UNSCHEDULABLE))
    by_tolerations |= bare * np.uint8(static_bit(PredicateReason.TAINT_NOT_TOLERATED))
    by_requirement = excluded * np.uint8(static_bit(PredicateReason.NODE_AFFINITY_NOT_MATCHED))
    by_volumes = volumes.unbindable(volume_sets, nodes.rows) * np.uint8(static_bit(PredicateReason.VOLUME_NOT_BINDABLE))
    by_volumes |= volumes.outside_zone(volume_sets, nodes.rows) * np.uint8(
        static_bit(PredicateReason.VOLUME_ZONE_MISMATCH)
    )
    blocked: UInt8 = by_tolerations[tolerations]
    blocked |= by_requirement[requirement]
    if len(volume_sets.sets) > 1:
        blocked |= by_volumes[classes.volume_set]
    unsupported = np.fromiter((spec.unsupported for spec in specs.rows), np.bool_, len(specs.rows))[classes.spec]
    blocked[unsupported] |= np.uint8(static_bit(PredicateReason.UNSUPPORTED_CONSTRAINT))
    blocked[classes.gated] |= np.uint8(static_bit(PredicateReason.SCHEDULING_GATED))
    joined: UInt8 = np.ascontiguousarray(blocked)
    return joined


def _namespace_rows(snapshot: Snapshot, given: PodInput, specs: SchedulingSpecs, classes: PodClasses) -> NamespaceRows:
    terms = (term for spec in specs.rows for term in spec.pod_affinity + spec.pod_anti_affinity)
    selectors = {term.namespace_selector: None for term in terms if term.namespace_selector is not None}
    return NamespaceRows(given.strings, given.label_sets, snapshot.namespaces, classes, list(selectors))


def _local_classes(presence: PresenceCounters, spread: SpreadCounters, topologies: Topologies) -> UInt8:
    """Classes whose fitting depends on the node alone : uint8[S]: no domain that they look at has two nodes."""
    single = np.zeros(len(topologies.keys), np.bool_)
    for row in range(len(topologies.keys)):
        single[row] = topologies.size(row) == int((topologies.domains(row) >= 0).sum())
    local = (np.diff(presence.filled_offsets) == 0) & (np.diff(spread.limit_offsets) == 0)
    owner = np.repeat(np.arange(len(local)), np.diff(presence.empty_offsets))
    local[owner[~single[presence.row[presence.empty[:, 0]]]]] = False
    joined: UInt8 = local.astype(np.uint8)
    return joined


def _placed(snapshot: Snapshot, given: PodInput) -> Int64:
    """Where each pod is at first : int64[P], -1 = nowhere."""
    phase = snapshot.pods.phase
    ended = (phase == PodPhase.SUCCEEDED) | (phase == PodPhase.FAILED)
    out = np.full(len(given.spec), -1, np.int64)
    out[: len(phase)] = np.where(ended | (snapshot.pods.node < 0), -1, snapshot.pods.node)
    return out


def move_log(pods: int, nodes: int) -> MoveLog:
    """Return an empty log with room for the moves of a decision."""
    capacity = _MOVES_FOR_EACH_POD * pods + _MOVES_FOR_EACH_NODE * nodes + _SPARE_MOVES
    return MoveLog(np.zeros((capacity, 3), np.int64), np.zeros(1, np.int64))


def search_memory(classes: int, nodes: int) -> SearchMemory:
    """Return the memory of searches that has learnt nothing."""
    return SearchMemory(np.zeros(nodes + 1, np.int64), np.zeros(1, np.int64), np.full(classes, -1, np.int64))
