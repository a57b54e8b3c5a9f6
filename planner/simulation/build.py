"""Builds a simulation from a snapshot: classes, static matrix, and counters with all placed pods. Contract: pure. Pods
in a terminal phase and pods on unknown nodes are left out, as in the scheduler's cache. Virtual pods start on no node,
virtual nodes closed unless given as open. Cost: vectorised over pods, labels and nodes; loops over distinct specs,
terms, volumes.

Copy a simulation: written arrays are copied, the others shared.

Contract: pure. The cached simulation is never handed out and never changes. A copy equals it bit by bit and behaves
like a newly built one. Cost: O(P + counters) copied bytes, a tenth of building.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.classes.node_classes import NodeClasses, node_classes
from trimtab.planner.classes.pod_classes import PodClasses, PodRows, pod_classes
from trimtab.planner.classes.pod_matching import NamespaceRows, PodMatching
from trimtab.planner.classes.scheduling_specs import SchedulingSpecs, scheduling_specs
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.predicates.counter_kind import BuildContext
from trimtab.planner.predicates.counters import build_counters, local_classes
from trimtab.planner.predicates.order import STATIC, looks_at
from trimtab.planner.predicates.resources import checked_resources, resource_counters
from trimtab.planner.predicates.static import StaticPods, node_signature, spec_parts, static_answers, volume_parts
from trimtab.planner.predicates.topologies import Topologies
from trimtab.planner.predicates.volume_sets import volume_sets
from trimtab.planner.simulation.inputs import NO_TEMPLATES, Inputs, PodInput, TemplateRequests, joined, with_successors
from trimtab.planner.simulation.kernels import fill
from trimtab.planner.simulation.log import log_for, move_log
from trimtab.planner.simulation.state import CLOSED, OPEN, SimulationState, VirtualNodeColumns, written_paths
from trimtab.planner.simulation.virtual_rows import NOTHING_VIRTUAL, VirtualRows
from trimtab.planner.simulation.yielding import expendable, hold_nominated, running, traits_in_plans
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, Snapshot, UInt8


class SimulationSettings(NamedTuple):
    """honor_spread_timeout : the spread constraints of a pod expire at the age in its annotation
    `zalando.org/topology-spread-timeout`. Off by default: it needs a scheduler that does the same;
    compare_tolerations : the operators Lt and Gt of tolerations compare numbers, else such tolerations cover nothing.
    Off by default, as kube-scheduler's feature gate TaintTolerationComparisonOperators; expendable_below : who holds
    room is as in plans (`trimtab.planner.simulation.yielding`), with this cutoff; None = as the cluster runs;
    templates : what pods request in another place, in plans.
    """

    honor_spread_timeout: bool = False
    compare_tolerations: bool = False
    expendable_below: int | None = None
    templates: TemplateRequests = NO_TEMPLATES

    @property
    def depends_on_time(self) -> bool:
        """Whether a simulation is of one request only, as far as these settings tell."""
        return self.honor_spread_timeout or self.compare_tolerations


_DEFAULTS = SimulationSettings()


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
    limits: RequestLimits = UNLIMITED,
) -> Simulation:
    """Build a simulation with every running pod on its node. limits : see `RequestLimits`."""
    empty = build_empty(snapshot, virtual, now_s, settings, limits)
    fill(empty.state, _placed(snapshot, settings.expendable_below, len(empty.state.pod_node)))
    if settings.expendable_below is not None:
        hold_nominated(empty.state, snapshot, settings.expendable_below)
    return empty


def build_empty(
    snapshot: Snapshot, virtual: VirtualRows, now_s: int, settings: SimulationSettings, limits: RequestLimits
) -> Simulation:
    """Build a simulation with no pod on any node, and no node in the topology, as the input of `fill`."""
    inputs = joined(snapshot, virtual, limits)
    if settings.expendable_below is not None:
        traits = traits_in_plans(snapshot, settings.expendable_below)
        inputs = inputs._replace(nodes=inputs.nodes._replace(traits=traits + inputs.nodes.traits[len(traits) :]))
        inputs = with_successors(inputs, snapshot, settings.templates)
    limits.check()
    specs = scheduling_specs(inputs.pods.specs, spec_parts(STATIC), settings.compare_tolerations, looks_at)
    node_count = len(inputs.nodes.name)
    pod_count = len(inputs.pods.spec) - len(virtual.without_row)
    mounted = volume_sets(
        snapshot.volumes, volume_parts(STATIC), len(inputs.pods.spec), snapshot.pods.volume_pod, snapshot.pods.volume
    )
    rows = _pod_rows(inputs.pods, specs, mounted.of, now_s, settings)
    classes = pod_classes(inputs.strings, inputs.label_sets, rows, specs, limits)
    signature = node_signature(STATIC, specs, mounted)
    nodes = node_classes(inputs.strings, inputs.label_sets, inputs.nodes, signature, limits)
    nodes = nodes._replace(template_traits=tuple(dict.fromkeys(snapshot.templates.traits)))
    static = static_answers(STATIC, StaticPods(specs, classes, mounted), nodes, limits)
    matching = PodMatching(classes, _namespace_rows(snapshot, inputs, specs, classes), limits)
    spare = any(virtual_nodes.is_spare for virtual_nodes in virtual.nodes)
    topologies = Topologies(inputs.strings, inputs.label_sets, inputs.nodes.label_set, limits, has_spare_nodes=spare)
    names = checked_resources(inputs.resources, specs)
    limits.reserve(8 * len(names) * (node_count + 3 * classes.size), "amounts of resources")
    counters = build_counters(
        BuildContext(snapshot, specs, matching, nodes, inputs.nodes.traits, pod_count, static, topologies, limits)
    )
    state = SimulationState(
        classes.of[:pod_count].astype(np.int64),
        np.full(pod_count, NO_NODE, np.int64),
        inputs.pods.pinned[:pod_count].astype(np.int64),
        nodes.of.astype(np.int64),
        _node_states(virtual, len(snapshot.nodes.name)),
        static.blocked,
        local_classes(counters),
        resource_counters(names, inputs.resources, inputs.nodes.allocatable, specs, classes),
        counters,
        _virtual_node_columns(virtual, len(snapshot.nodes.name), classes.of[pod_count:]),
        log_for(pod_count, node_count),
    )
    kind_class = classes.of[pod_count + len(virtual.residents) :]
    classes = classes._replace(of=classes.of[:pod_count])
    limits.check()
    nodes.rows.release()
    counts = len(snapshot.pods.spec), len(snapshot.nodes.name)
    return Simulation(state, snapshot, virtual, now_s, settings, *counts, names, specs, classes, nodes, kind_class)


def _pod_rows(
    pods: PodInput, specs: SchedulingSpecs, volume_set: Int32, now_s: int, settings: SimulationSettings
) -> PodRows:
    """Return the rows of pods. volume_set : int32[P] as in `VolumeSets`."""
    expired = is_spread_expired(specs.spread_timeout_s[pods.spec], pods.created_s, now_s, settings)
    return PodRows(
        pods.namespace,
        specs.of[pods.spec],
        pods.label_set,
        pods.pinned,
        volume_set,
        pods.terminating,
        pods.gated,
        expired,
    )


def is_spread_expired(timeout_s: Int64, created_s: Int64, now_s: int, settings: SimulationSettings) -> Bool:
    """Return which pods' spread constraints have expired : bool[P]. timeout_s, created_s : int64[P]."""
    if not settings.honor_spread_timeout:
        return np.zeros(len(timeout_s), np.bool_)
    return (timeout_s >= 0) & (now_s - created_s > timeout_s)


def _namespace_rows(snapshot: Snapshot, inputs: Inputs, specs: SchedulingSpecs, classes: PodClasses) -> NamespaceRows:
    looked_at = (spec.namespace_selectors for spec in specs.looks_at if spec is not None)
    selectors = list(dict.fromkeys(selector for some in looked_at for selector in some))
    return NamespaceRows(inputs.strings, inputs.label_sets, snapshot.namespaces, classes, selectors)


def _placed(snapshot: Snapshot, cutoff: int | None, count: int) -> Int64:
    """Return the initial node of each pod : int64[P], -1 = none."""
    out, stays = np.full(count, NO_NODE, np.int64), running(snapshot)
    if cutoff is not None:
        stays &= ~expendable(snapshot, cutoff)
    out[: len(stays)] = np.where(stays, snapshot.pods.node, NO_NODE)
    return out


def _node_states(virtual: VirtualRows, real: int) -> UInt8:
    """Return the initial state of each node : uint8[N]. real : number of nodes that are not virtual."""
    virtual_states = [np.full(len(nodes.names), OPEN if nodes.is_open else CLOSED, np.uint8) for nodes in virtual.nodes]
    return np.concatenate([np.full(real, OPEN, np.uint8), *virtual_states])


def _virtual_node_columns(virtual: VirtualRows, real: int, resident_class: Int32) -> VirtualNodeColumns:
    """Return the columns. resident_class : int32[residents] in the order of `VirtualRows.residents`. O(N + residents).

    Each node has its own list of residents, also within a template.
    """
    count = real + virtual.node_count
    lengths = np.zeros(count, np.int64)
    parts, first, node, spare = [np.zeros(0, np.int32)], 0, real, -1
    for nodes in virtual.nodes:
        last = first + len(nodes.residents)
        lengths[node : node + len(nodes.names)] = len(nodes.residents)
        parts.append(np.tile(resident_class[first:last], len(nodes.names)))
        if nodes.is_spare and spare < 0:
            spare = node
        first, node = last, node + len(nodes.names)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
    resident = np.concatenate(parts).astype(np.int64)
    return VirtualNodeColumns(offsets, resident, np.full(count, -1, np.int64), np.array([spare], np.int64))


def to_keep(built: Simulation) -> Simulation:
    """Return a newly built simulation for the cache: with an empty log, as no moves are made in it."""
    return built._replace(state=built.state._replace(log=move_log(0)))


def fresh(simulation: Simulation, more_pods: int = 0) -> Simulation:
    """Return a writable copy, with room in its log for the moves of `more_pods` additional pods."""
    return simulation._replace(state=_state(simulation.state, more_pods))


def branch(state: SimulationState) -> SimulationState:
    """Return an independent copy of a state, including the moves in its log."""
    copied, length = _state(state, 0), state.log.length[0]
    log = move_log(len(state.log.moves))
    log.moves[:length] = state.log.moves[:length]
    log.length[0], log.refused[0] = length, state.log.refused[0]
    return copied._replace(log=log)


def go_over_to(state: SimulationState, other: SimulationState) -> None:
    """Update a state, in place, to equal a branch of it."""
    for path in (*written_paths(state), "log.length", "log.refused"):
        read = attrgetter(path)
        np.copyto(read(state), read(other))
    length = other.log.length[0]
    state.log.moves[:length] = other.log.moves[:length]


def _state(state: SimulationState, more_pods: int) -> SimulationState:
    own: SimulationState = _with_copies(state, written_paths(state))
    return own._replace(log=log_for(len(state.pod_node) + more_pods, len(state.node_state)))


def _with_copies(arrays: Any, paths: Iterable[str]) -> Any:
    """Return a tuple of arrays, and of tuples of arrays, in which those at the paths are copied."""
    below: dict[str, list[str]] = {}
    for path in paths:
        name, _, rest = path.partition(".")
        below.setdefault(name, []).append(rest)
    return arrays._replace(
        **{
            name: getattr(arrays, name).copy() if rests == [""] else _with_copies(getattr(arrays, name), rests)
            for name, rests in below.items()
        }
    )
