"""Builds a simulation from a snapshot: classes, static matrix, and counters with all placed pods. Contract: pure. Pods
in a terminal phase and pods on unknown nodes are left out, as in the scheduler's cache. Virtual pods start on no node,
virtual nodes closed unless given as open. Cost: vectorised over pods, labels and nodes; loops over distinct specs,
terms, volumes.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.classes.label_columns import LookedAt
from trimtab.planner.classes.node_classes import NodeClasses, NodeSelectors, node_classes
from trimtab.planner.classes.pod_classes import PodClasses, PodRows, pod_classes
from trimtab.planner.classes.pod_matching import NamespaceRows, PodMatching
from trimtab.planner.classes.scheduling_specs import SchedulingSpecs, scheduling_specs
from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.predicates import disks, host_ports, inter_pod_affinity, node_affinity, node_unschedulable, volumes
from trimtab.planner.predicates.order import static_bit
from trimtab.planner.predicates.pod_volumes import volume_counters
from trimtab.planner.predicates.presence import PresenceBuilder, PresenceCounters
from trimtab.planner.predicates.resources import checked_resources, resource_counters
from trimtab.planner.predicates.spread_counters import SpreadCounters
from trimtab.planner.predicates.taints import untolerated
from trimtab.planner.predicates.topologies import Topologies
from trimtab.planner.predicates.topology_spread import SpreadNodes, spread_counters
from trimtab.planner.simulation.inputs import Inputs, PodInput, joined
from trimtab.planner.simulation.kernels import fill
from trimtab.planner.simulation.log import log_for
from trimtab.planner.simulation.state import NOWHERE, SimulationState, VirtualNodeColumns
from trimtab.planner.simulation.virtual_columns import node_states, virtual_node_columns
from trimtab.planner.simulation.virtual_rows import NOTHING_VIRTUAL, VirtualRows
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot, UInt8
from trimtab.v1.reason_pb2 import PredicateReason


class SimulationSettings(NamedTuple):
    """honor_spread_timeout : the spread constraints of a pod expire at the age in its annotation
    `zalando.org/topology-spread-timeout`. Off by default: it needs a scheduler that does the same."""

    honor_spread_timeout: bool = False


_DEFAULTS = SimulationSettings()
READ: Final = (
    "strings",
    "resources",
    "label_sets.offsets",
    "label_sets.keys",
    "label_sets.values",
    "specs",
    "volumes",
    "namespaces",
    *(
        f"pods.{column}"
        for column in (
            "namespace",
            "spec",
            "label_set",
            "node",
            "pinned",
            "created_s",
            "deletion_s",
            "phase",
            "flags",
            "volume_pod",
            "volume",
        )
    ),
    *(
        f"nodes.{column}"
        for column in (
            "name",
            "label_set",
            "taint_set",
            "taint_sets",
            "unschedulable",
            "allocatable",
            "attach_limits",
        )
    ),
)
"""Fields of the snapshot from which a simulation is built."""


class Simulation(NamedTuple):
    """A simulation with the data for explanations and extensions. state : the argument of kernels; snapshot, virtual,
    now_s, settings : its sources; pod_count, node_count : the snapshot's, virtual ones follow; resources : names of the
    columns of `state.resources`; specs, pods, nodes : the classes; kind_class : int32[kinds], class of each of the
    kinds in `virtual`.
    """

    state: SimulationState
    snapshot: Snapshot
    virtual: VirtualRows
    now_s: int
    settings: SimulationSettings
    pod_count: int
    node_count: int
    resources: tuple[str, ...]
    specs: SchedulingSpecs
    pods: PodClasses
    nodes: NodeClasses
    kind_class: Int32


def build_simulation(
    snapshot: Snapshot,
    virtual: VirtualRows = NOTHING_VIRTUAL,
    now_s: int = 0,
    settings: SimulationSettings = _DEFAULTS,
    effort: Effort = UNLIMITED,
) -> Simulation:
    """Build a simulation with every running pod on its node. effort : see `Effort`."""
    empty = build_empty(snapshot, virtual, now_s, settings, effort)
    fill(empty.state, _placed(snapshot, len(empty.state.pod_node)))
    return empty


def build_empty(
    snapshot: Snapshot, virtual: VirtualRows, now_s: int, settings: SimulationSettings, effort: Effort
) -> Simulation:
    """Build a simulation with no pod on any node, and no node in the topology, as the input of `fill`."""
    given = joined(snapshot, virtual, effort)
    effort.check()
    specs = scheduling_specs(given.pods.specs)
    mounts = (snapshot.pods.volume_pod, snapshot.pods.volume)
    node_count = len(given.nodes.name)
    pod_count = len(given.pods.spec) - len(virtual.without_row)
    volume_sets = volumes.volume_sets(snapshot.volumes, len(given.pods.spec), mounts)
    rows = _pod_rows(given.pods, specs, (volume_sets.of, now_s, settings))
    classes = pod_classes(given.strings, given.label_sets, rows, specs, effort)
    nodes = _node_classes(given, (specs, volume_sets), effort)
    excluded = node_affinity.excluded(specs.node_requirements, nodes.rows, effort)
    _take_for_blocked(effort, specs, classes, nodes)
    bare = untolerated(specs.toleration_sets, nodes.taint_sets, effort)[:, nodes.taint_set]
    blocked = _blocked(specs, classes, (nodes, volume_sets), (excluded, bare))
    matching = PodMatching(classes, _namespace_rows(snapshot, given, specs, classes), effort)
    topologies = Topologies(given.strings, given.label_sets, given.nodes.label_set, effort)
    builder = PresenceBuilder(classes.size, topologies)
    host_ports.add_counters(builder, specs, classes)
    disks.add_counters(builder, specs, classes)
    inter_pod_affinity.add_counters(builder, topologies, specs, matching)
    spread = spread_counters(topologies, specs, matching, SpreadNodes(nodes, excluded, bare))
    presence = builder.build()
    names = checked_resources(given.resources, specs)
    effort.take(8 * len(names) * (node_count + 3 * classes.size), "amounts of resources")
    joining = virtual_node_columns(virtual, len(snapshot.nodes.name), classes.of[pod_count:], topologies)
    state = SimulationState(
        classes.of[:pod_count].astype(np.int64),
        np.full(pod_count, NOWHERE, np.int64),
        given.pods.pinned[:pod_count].astype(np.int64),
        nodes.of.astype(np.int64),
        node_states(virtual, len(snapshot.nodes.name)),
        blocked,
        _local_classes(presence, spread, topologies, joining),
        resource_counters(names, (given.resources, given.nodes.allocatable), specs, classes),
        presence,
        spread,
        volume_counters(snapshot.volumes, pod_count, mounts, given.nodes.attach_limits, effort),
        joining,
        log_for(pod_count, node_count),
    )
    kind_class = classes.of[pod_count + len(virtual.residents) :]
    classes = classes._replace(of=classes.of[:pod_count])
    effort.check()
    nodes.rows.release()
    counts = len(snapshot.pods.spec), len(snapshot.nodes.name)
    return Simulation(state, snapshot, virtual, now_s, settings, *counts, names, specs, classes, nodes, kind_class)


def _pod_rows(given: PodInput, specs: SchedulingSpecs, rest: tuple[Int32, int, SimulationSettings]) -> PodRows:
    volume_set, now_s, settings = rest
    expired = is_spread_expired(specs.spread_timeout_s[given.spec], given.created_s, now_s, settings)
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


def is_spread_expired(timeout_s: Int64, created_s: Int64, now_s: int, settings: SimulationSettings) -> Bool:
    """Return which pods' spread constraints have expired : bool[P]. timeout_s, created_s : int64[P]."""
    if not settings.honor_spread_timeout:
        return np.zeros(len(timeout_s), np.bool_)
    return (timeout_s >= 0) & (now_s - created_s > timeout_s)


def _node_classes(given: Inputs, selecting: tuple[SchedulingSpecs, volumes.VolumeSets], effort: Effort) -> NodeClasses:
    specs, volume_sets = selecting
    looked_at = LookedAt()
    volumes.note_zones(volume_sets.profiles, looked_at)
    terms = tuple(profile.terms for profile in volume_sets.profiles if profile.terms is not None)
    selectors = NodeSelectors(specs, terms, looked_at)
    return node_classes(given.strings, given.label_sets, given.nodes, selectors, effort)


def _take_for_blocked(effort: Effort, specs: SchedulingSpecs, classes: PodClasses, nodes: NodeClasses) -> None:
    """Ask for the memory of the static predicates."""
    node_class_count = len(nodes.taint_set)
    effort.take(4 * len(specs.toleration_sets) * node_class_count, "tolerations times node classes")
    effort.take(2 * classes.size * node_class_count, "pod classes times node classes")


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


def _namespace_rows(snapshot: Snapshot, given: Inputs, specs: SchedulingSpecs, classes: PodClasses) -> NamespaceRows:
    terms = (term for spec in specs.rows for term in spec.pod_affinity + spec.pod_anti_affinity)
    selectors = {term.namespace_selector: None for term in terms if term.namespace_selector is not None}
    return NamespaceRows(given.strings, given.label_sets, snapshot.namespaces, classes, list(selectors))


def _local_classes(
    presence: PresenceCounters, spread: SpreadCounters, topologies: Topologies, joining: VirtualNodeColumns
) -> UInt8:
    """Return the classes that depend on the node alone : uint8[S]. Their domains never have two nodes."""
    single = np.zeros(len(topologies.keys), np.bool_)
    for row in range(len(topologies.keys)):
        is_distinct = topologies.size(row) == int((topologies.domains(row) >= 0).sum())
        # Several blank nodes may join the domain of one prototype.
        single[row] = is_distinct and bool(joining.own_row[row] or joining.blank[0] < 0)
    local = (np.diff(presence.filled_offsets) == 0) & (np.diff(spread.limit_offsets) == 0)
    owner = np.repeat(np.arange(len(local)), np.diff(presence.empty_offsets))
    local[owner[~single[presence.row[presence.empty[:, 0]]]]] = False
    joined: UInt8 = local.astype(np.uint8)
    return joined


def _placed(snapshot: Snapshot, count: int) -> Int64:
    """Return the initial node of each pod : int64[P], -1 = none."""
    out = np.full(count, NOWHERE, np.int64)
    out[: len(snapshot.pods.node)] = np.where(
        snapshot.pods.is_terminal() | (snapshot.pods.node < 0), -1, snapshot.pods.node
    )
    return out
