"""Adds classes for virtual pods that differ from others only in their requests, or that depend only on their node.
Contract: exact; pure. A pod class is appended if everything that depends on other pods can be taken from an existing
class: one whose spec differs only in its requests, in the same namespace and with the same labels as far as terms
select them; or, for a pod without ports, disks, affinity and spread constraints, from any other such pod of that
namespace with those labels, or from none if no term selects it. Some class must have its node requirement. For all
other pods, the simulation has to be built again. Cost: O(scheduling specs + S · K).
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.classes.grouping import group_columns, number_values
from trimtab.planner.classes.pod_classes import PodClasses
from trimtab.planner.classes.scheduling_specs import SchedulingSpec, SchedulingSpecs, with_more_specs
from trimtab.planner.predicates.counter_kind import NO_CLASS
from trimtab.planner.predicates.counters import with_more_classes as with_counters_of
from trimtab.planner.predicates.counters import with_values_of
from trimtab.planner.predicates.order import STATIC, is_plain
from trimtab.planner.predicates.resources import NOT_CHECKED, POD_ROOM, PODS, is_counted
from trimtab.planner.predicates.static import Bits, KnownAnswers, blocked_for_more
from trimtab.planner.simulation.build import Simulation
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
