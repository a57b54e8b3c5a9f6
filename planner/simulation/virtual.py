"""Adds virtual pods and nodes to a simulation. Contract: pure. The given simulation stays unchanged. The result is a
writable copy: pods are on the same nodes, nodes are open, cordoned, dropped or closed as in the given one, its log is
empty; it answers like one built from a snapshot in which the virtual rows are real, without closed nodes.

There are three ways, each for what the one before it cannot do. Figures: CPU time to add 2,300 placeholders of one size
to 5,000 nodes with 150,000 pods; 0.25 ms of it is the copy.

- The classes exist, because pods are the same objects as the `Kinds` of the simulation, or because they equal classes
  of other pods (`trimtab.planner.classes.known_classes`), as those of recently evicted pods do: rows are appended to
  the columns of pods. 0.7 ms and 1.0 ms. A steady slack decision takes 2 ms altogether.
- Classes that differ from others only in their requests are appended too (`trimtab.planner.simulation.virtual`):
  4.6 ms.
- Otherwise, and for virtual nodes, the simulation is built again from the snapshot and all virtual rows: 22 ms.

Adds classes for virtual pods that differ from others only in their requests, or that depend only on their node.
Contract: exact; pure. A pod class is appended if everything that depends on other pods can be taken from an existing
class: one whose spec differs only in its requests, in the same namespace and with the same labels as far as terms
select them; or, for a pod without ports, disks, affinity and spread constraints, from any other such pod of that
namespace with those labels, or from none if no term selects it. Some class must have its node requirement. For all
other pods, the simulation has to be built again. Cost: O(scheduling specs + S · K).
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.classes.grouping import group_columns, number_values
from trimtab.planner.classes.known_classes import (
    known_classes,
    label_groups,
    may_be_selected,
    namespace_numbers,
    selectors_of,
)
from trimtab.planner.classes.pod_classes import PodClasses, pinned_in_class
from trimtab.planner.classes.scheduling_specs import SchedulingSpec, SchedulingSpecs, scheduling_spec, with_more_specs
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.predicates.counter_kind import NO_CLASS
from trimtab.planner.predicates.counters import with_more_classes as with_counters_of
from trimtab.planner.predicates.counters import with_more_pods, with_values_of
from trimtab.planner.predicates.order import STATIC, is_plain
from trimtab.planner.predicates.resources import NOT_CHECKED, POD_ROOM, PODS, is_counted
from trimtab.planner.predicates.static import Bits, KnownAnswers, blocked_for_more
from trimtab.planner.simulation.build import Simulation, build_empty, fresh, is_spread_expired
from trimtab.planner.simulation.kernels import fill
from trimtab.planner.simulation.virtual_rows import NO_KINDS, Kinds, VirtualNodes, VirtualPod
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64
from trimtab.planner.snapshot.references import NONE


class NewClasses(NamedTuple):
    """C classes to append. specs : their scheduling specs; namespace, label_group : int32[C] as in `PodClasses`."""

    specs: list[SchedulingSpec]
    namespace: Int32
    label_group: Int32


class _Sources(NamedTuple):
    """The sources of new classes. lists : int64[C] class or NO_CLASS; blocked : uint16[C, K]."""

    lists: Int64
    blocked: Bits


def with_more_classes(given: Simulation, new: NewClasses) -> Simulation | None:
    """Return the simulation with the classes appended, None if it has to be built again. The caller owns the given
    simulation; arrays that change are replaced, not written to.
    """
    asked = {name for spec in new.specs for name, amount in spec.requests if amount > 0 and is_counted(name)}
    if not given.pods.size or not asked <= set(given.resources):
        return None
    specs, spec = with_more_specs(given.specs, new.specs)
    sources = _sources(given, specs, spec, new)
    if sources is None:
        return None
    state = given.state
    request = _requests(given.resources, new.specs)
    need = np.where(request > 0, request, NOT_CHECKED)
    return given._replace(
        specs=specs,
        pods=_with_rows(given.pods, spec, new),
        state=state._replace(
            blocked=np.concatenate([state.blocked, sources.blocked]),
            local_class=with_values_of(state.local_class, sources.lists, 1),
            resources=state.resources._replace(
                request=np.concatenate([state.resources.request, request]),
                need=np.concatenate([state.resources.need, need]),
            ),
            counters=with_counters_of(state.counters, sources.lists),
        ),
    )


def _sources(given: Simulation, specs: SchedulingSpecs, spec: Int32, new: NewClasses) -> _Sources | None:
    """Return the source of each class, None if one has no source."""
    twin = _alike(given.pods, _shapes(specs), spec, new)
    lists = twin.copy()
    blocked = given.state.blocked[twin]  # of any class for NONE, until it is known below
    missing = twin == NONE
    if missing.any():
        plain = np.array([is_plain(row) for row in specs.rows], np.int32)
        lists[missing] = _alike(given.pods, plain, spec, new)[missing]
        # If no term selects them, pods without constraints have no lists.
        unseen = new.namespace == len(given.pods.namespaces) - 1
        known = KnownAnswers(specs, given.pods, given.state.blocked)
        by_node = blocked_for_more(STATIC, [specs.rows[at] for at in spec[missing].tolist()], given.nodes, known)
        if by_node is None or (missing & ((lists == NONE) & ~unseen | (plain[spec] == 0))).any():
            return None
        lists[missing & unseen] = NO_CLASS
        blocked[missing] = by_node
    return _Sources(lists, blocked)


def _shapes(specs: SchedulingSpecs) -> Int32:
    """Number scheduling specs, ignoring their requests : int32[specs]."""
    shape, _ = number_values([spec._replace(requests=()) for spec in specs.rows])
    return shape


def _alike(classes: PodClasses, shape: Int32, spec: Int32, new: NewClasses) -> Int64:
    """Return for each new class an existing one with the same shape, namespace and labels : int64[C], or NONE. shape :
    int32[specs]. Only classes of pods that run, mount nothing and are not pinned to a node count.
    """
    rows = np.flatnonzero((classes.flags == 0) & (classes.volume_set == 0) & (classes.pinned == NO_NODE))
    columns = [
        np.concatenate([shape[classes.spec[rows]], shape[spec]]),
        np.concatenate([classes.namespace[rows], new.namespace]),
        np.concatenate([classes.label_group[rows], new.label_group]),
    ]
    groups = group_columns([(column, int(column.max(initial=0)) + 1) for column in columns])
    having = np.full(groups.size, NONE, np.int64)
    having[groups.of[: len(rows)]] = rows
    return having[groups.of[len(rows) :]]


def _requests(resources: tuple[str, ...], specs: list[SchedulingSpec]) -> Int64:
    column = {name: at for at, name in enumerate(resources)}
    request = np.zeros((len(specs), len(resources)), np.int64)
    for at, spec in enumerate(specs):
        for name, amount in spec.requests:
            if name in column and name != PODS:
                request[at, column[name]] = amount
    request[:, POD_ROOM] = 1
    return request


def _with_rows(classes: PodClasses, spec: Int32, new: NewClasses) -> PodClasses:
    """Append rows of classes; their pods are appended later."""
    count = len(spec)
    nothing: Bool = np.zeros(count, np.bool_)
    zeros = np.zeros(count, np.int32)
    return classes._replace(
        first=np.concatenate([classes.first, np.full(count, NONE, np.int64)]),
        spec=np.concatenate([classes.spec, spec]),
        volume_set=np.concatenate([classes.volume_set, zeros]),
        namespace=np.concatenate([classes.namespace, new.namespace]),
        label_group=np.concatenate([classes.label_group, new.label_group]),
        pinned=np.concatenate([classes.pinned, np.full(count, NO_NODE, np.int32)]),
        terminating=np.concatenate([classes.terminating, nothing]),
        gated=np.concatenate([classes.gated, nothing]),
        spread_expired=np.concatenate([classes.spread_expired, nothing]),
        flags=np.concatenate([classes.flags, zeros]),
    )


_LABEL_SETS: Final = 64
"""Most distinct label sets that are matched one by one with all selectors; building again is faster for more."""


def with_virtual(
    given: Simulation,
    pods: tuple[VirtualPod, ...],
    nodes: tuple[VirtualNodes, ...] = (),
    limits: RequestLimits = UNLIMITED,
    kinds: Kinds = NO_KINDS,
) -> Simulation:
    """Return the simulation with virtual pods, on no node, and virtual nodes appended.

    kinds : equal to those of the given simulation; pods that are the same objects have their classes.
    """
    if not nodes:
        distinct, of = _distinct(pods)
        own, classes = _with_classes_of(given, distinct, len(pods), kinds)
        if own is not None:
            return _with_pods(own, pods, classes[of], np.array([one.pinned for one in distinct], np.int64)[of])
    return _rebuilt(given, pods, nodes, limits)


def _distinct(pods: tuple[VirtualPod, ...]) -> tuple[tuple[VirtualPod, ...], Int64]:
    """Return the distinct pod objects, and the position of each pod among them. int64[pods]."""
    at = np.fromiter(map(id, pods), np.int64, len(pods))
    # Equal pods of one workload are consecutive.
    first = np.flatnonzero(np.diff(at, prepend=-1))
    number: dict[int, int] = {}
    of_run = [number.setdefault(one, len(number)) for one in at[first].tolist()]
    of = np.repeat(np.array(of_run, np.int64), np.diff(first, append=len(pods)))
    distinct = dict(zip(at[first].tolist(), map(pods.__getitem__, first.tolist()), strict=True))
    return tuple(distinct.values()), of


def _with_classes_of(
    given: Simulation, pods: tuple[VirtualPod, ...], virtual_count: int, kinds: Kinds
) -> tuple[Simulation | None, Int64]:
    """Return a copy of the simulation with the classes of pods, None if it has to be built again; and the class of each
    pod : int64[pods]. virtual_count : the number of virtual pods."""
    of_kind = dict(zip(map(id, kinds.pods), given.kind_class.tolist(), strict=False))
    classes = np.array([of_kind.get(id(pod), NONE) for pod in pods], np.int64)
    rest = np.flatnonzero(classes == NONE)
    others = tuple([pods[at] for at in rest.tolist()])
    known = _known(given, others)
    own = _with_classes(fresh(given, virtual_count), others, known)
    classes[rest] = known.classes
    return own, classes


class _Known(NamedTuple):
    """Known properties of pods. classes : int64[pods], NONE = no class yet, set when one is appended; namespace,
    label_group : int32[pods] as in `PodClasses`; bound : bool[pods] pinned to a node, or with expired spread
    constraints.
    """

    classes: Int64
    namespace: Int32
    label_group: Int32
    bound: Bool


def _known(given: Simulation, pods: tuple[VirtualPod, ...]) -> _Known:
    if not pods:
        nothing = np.zeros(0, np.int32)
        return _Known(np.zeros(0, np.int64), nothing, nothing, np.zeros(0, np.bool_))
    spec = _specs(given, pods)
    namespace = namespace_numbers(given.pods, [pod.namespace for pod in pods], lambda: _namespaces_with_pods(given))
    # Labels are not part of a class if no term selects on them.
    looked_into = namespace != len(given.pods.namespaces) - 1
    labels = [dict(pod.labels) if seen else {} for pod, seen in zip(pods, looked_into.tolist(), strict=True)]
    created_s = np.array([pod.created_s for pod in pods], np.int64)
    timeout_s = np.array([pod.spec.topology_spread_timeout_s for pod in pods], np.int64)
    pinned = np.array([pod.pinned for pod in pods], np.int32)
    expired = is_spread_expired(timeout_s, created_s, given.now_s, given.settings)
    groups = label_groups(given.pods.labels, labels)
    own_node = pinned_in_class(pinned, spec, given.specs)
    classes = known_classes(given.pods, spec, namespace, groups, own_node, expired)
    return _Known(classes, namespace, groups, expired | (pinned != NO_NODE))


def _specs(given: Simulation, pods: tuple[VirtualPod, ...]) -> Int32:
    """Return the scheduling spec of each pod : int32[pods], NONE = it is new."""
    # By identity, since pods of one workload share their spec, and examining one costs several microseconds.
    number: dict[int, int] = {}
    for pod in pods:
        if id(pod.spec) not in number:
            spec = scheduling_spec(pod.spec, given.settings.compare_tolerations)
            number[id(pod.spec)] = given.specs.number.get(spec, NONE)
    return np.array([number[id(pod.spec)] for pod in pods], np.int32)


def _with_classes(own: Simulation, pods: tuple[VirtualPod, ...], known: _Known) -> Simulation | None:
    """Append the missing classes of pods to the caller's own simulation; None if it has to be built again."""
    missing = np.flatnonzero(known.classes == NONE)
    if not len(missing):
        return own
    if known.bound[missing].any():
        return None
    spec_of: dict[int, SchedulingSpec] = {}
    for at in missing.tolist():
        spec = pods[at].spec
        if id(spec) not in spec_of:
            spec_of[id(spec)] = scheduling_spec(spec, own.settings.compare_tolerations)
    plain = [at for at in missing.tolist() if is_plain(spec_of[id(pods[at].spec)])]
    _move_unseen(own, pods, known, plain)
    elsewhere = known.namespace[missing] == len(own.pods.namespaces) - 1
    beyond = (known.namespace[missing] == NONE) | (known.label_group[missing] >= own.pods.labels.groups.size)
    if (beyond & ~elsewhere).any():
        return None
    number: dict[tuple[SchedulingSpec, int, int], int] = {}
    for at in missing.tolist():
        key = spec_of[id(pods[at].spec)], int(known.namespace[at]), int(known.label_group[at])
        known.classes[at] = own.pods.size + number.setdefault(key, len(number))
    specs, namespace, label_group = zip(*number, strict=True)
    return with_more_classes(
        own, NewClasses(list(specs), np.array(namespace, np.int32), np.array(label_group, np.int32))
    )


def _move_unseen(own: Simulation, pods: tuple[VirtualPod, ...], known: _Known, plain: list[int]) -> None:
    """Assign plain pods that no selector selects to the namespace without terms: it makes no difference to any pod."""
    labels = {pods[at].labels for at in plain}
    if not 0 < len(labels) <= _LABEL_SETS:
        return
    selectors = selectors_of(own.specs)
    seen = {one for one in labels if may_be_selected(selectors, dict(one))}
    unseen = [at for at in plain if pods[at].labels not in seen]
    known.namespace[unseen] = len(own.pods.namespaces) - 1
    known.label_group[unseen] = label_groups(own.pods.labels, [{}])[0]


def _namespaces_with_pods(given: Simulation) -> set[str]:
    strings = given.snapshot.strings
    holding = np.flatnonzero(np.bincount(given.snapshot.pods.namespace, minlength=len(strings)))
    return {strings[at] for at in holding.tolist()} | {
        pod.namespace for pod in given.virtual.pods + given.virtual.kinds.pods
    }


def _with_pods(own: Simulation, pods: tuple[VirtualPod, ...], classes: Int64, pinned: Int64) -> Simulation:
    """Append pods to the caller's own simulation."""
    if not pods:
        return own
    state, count = own.state, len(pods)
    return own._replace(
        virtual=own.virtual.and_more(pods, ()),
        pods=own.pods._replace(of=np.concatenate([own.pods.of, classes.astype(np.int32)])),
        state=state._replace(
            pod_class=np.concatenate([state.pod_class, classes]),
            pod_node=np.concatenate([state.pod_node, np.full(count, NO_NODE, np.int64)]),
            pinned=np.concatenate([state.pinned, pinned]),
            counters=with_more_pods(state.counters, count),
        ),
    )


def _rebuilt(
    given: Simulation, pods: tuple[VirtualPod, ...], nodes: tuple[VirtualNodes, ...], limits: RequestLimits
) -> Simulation:
    virtual = given.virtual.and_more(pods, nodes)
    built = build_empty(given.snapshot, virtual, given.now_s, given.settings, limits)
    # Virtual nodes come last, so new ones are appended at the end; likewise for pods.
    built.state.node_state[: len(given.state.node_state)] = given.state.node_state
    built.state.virtual.opened_from[: len(given.state.node_state)] = given.state.virtual.opened_from
    where = np.full(len(built.state.pod_node), NO_NODE, np.int64)
    where[: len(given.state.pod_node)] = given.state.pod_node
    fill(built.state, where)
    return built
