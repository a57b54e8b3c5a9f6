"""Adds classes for virtual pods that differ from others only in their requests, or that depend only on their node.
Contract: exact; pure. A pod class is appended if everything that depends on other pods can be taken from an existing
class: one whose spec differs only in its requests, in the same namespace and with the same labels as far as terms
select them; or, for a pod without ports, disks, affinity and spread constraints, from any other such pod of that
namespace with those labels, or from none if no term selects it. Some class must have its node requirement. For all
other pods, the simulation has to be built again. Cost: O(scheduling specs + S · K).
"""

from collections.abc import Hashable
from typing import Final, NamedTuple, TypeVar

import numpy as np

from trimtab.planner.classes.grouping import group_columns, number_values
from trimtab.planner.classes.known_classes import NONE
from trimtab.planner.classes.pod_classes import PodClasses
from trimtab.planner.classes.scheduling_specs import NodeRequirement, SchedulingSpec, SchedulingSpecs
from trimtab.planner.predicates import node_unschedulable
from trimtab.planner.predicates.listing import Lists
from trimtab.planner.predicates.order import static_bit
from trimtab.planner.predicates.presence import PresenceCounters
from trimtab.planner.predicates.resources import NOT_CHECKED, POD_ROOM, PODS, is_counted
from trimtab.planner.predicates.spread_counters import SpreadCounters
from trimtab.planner.predicates.taints import untolerated
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, UInt8
from trimtab.v1.reason_pb2 import PredicateReason

_BY_TOLERATIONS: Final = static_bit(PredicateReason.NODE_UNSCHEDULABLE) | static_bit(
    PredicateReason.TAINT_NOT_TOLERATED
)
_BY_REQUIREMENT: Final = static_bit(PredicateReason.NODE_AFFINITY_NOT_MATCHED)
_NO_REQUIREMENT: Final[NodeRequirement] = ((), None)
_PLAIN: Final = ((), (), (), (), False, (), ())
"""Fields of a scheduling spec after requests, node requirement and tolerations, for a pod independent of others."""
_NOTHING: Final = -1
"""In place of a class from which lists are taken: the lists are empty."""


class NewClasses(NamedTuple):
    """C classes to append. specs : their scheduling specs; namespace, label_group : int32[C] as in `PodClasses`."""

    specs: list[SchedulingSpec]
    namespace: Int32
    label_group: Int32


class _Sources(NamedTuple):
    """The sources of new classes. lists : int64[C] class or _NOTHING; blocked : uint8[C, K]."""

    lists: Int64
    blocked: UInt8


def is_plain(spec: SchedulingSpec) -> bool:
    """Return whether a pod has no ports, disks, affinity or spread constraints, and nothing unsupported."""
    return tuple(spec[3:]) == _PLAIN


def with_more_classes(given: Simulation, new: NewClasses) -> Simulation | None:
    """Return the simulation with the classes appended, None if it has to be built again. The caller owns the given
    simulation; arrays that change are replaced, not written to.
    """
    asked = {name for spec in new.specs for name, amount in spec.requests if amount > 0 and is_counted(name)}
    if not given.pods.size or not asked <= set(given.resources):
        return None
    specs, spec = _with_specs(given.specs, new.specs)
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
            local_class=_appended(state.local_class, sources.lists, 1),
            resources=state.resources._replace(
                request=np.concatenate([state.resources.request, request]),
                need=np.concatenate([state.resources.need, need]),
            ),
            presence=_more_presence(state.presence, sources.lists),
            spread=_more_spread(state.spread, sources.lists),
        ),
    )


def _more_presence(presence: PresenceCounters, sources: Int64) -> PresenceCounters:
    added = _more(Lists(presence.added_offsets, presence.added), sources)
    empty = _more(Lists(presence.empty_offsets, presence.empty), sources)
    filled = _more(Lists(presence.filled_offsets, presence.filled), sources)
    return presence._replace(
        added_offsets=added.offsets,
        added=added.items,
        empty_offsets=empty.offsets,
        empty=empty.items,
        filled_offsets=filled.offsets,
        filled=filled.items,
        starts_group=_appended(presence.starts_group, sources, 0),
    )


def _more_spread(spread: SpreadCounters, sources: Int64) -> SpreadCounters:
    added = _more(Lists(spread.added_offsets, spread.added), sources)
    limit = _more(Lists(spread.limit_offsets, spread.limit), sources)
    return spread._replace(
        added_offsets=added.offsets, added=added.items, limit_offsets=limit.offsets, limit=limit.items
    )


def _with_specs(specs: SchedulingSpecs, more: list[SchedulingSpec]) -> tuple[SchedulingSpecs, Int32]:
    """Return the specs with the new ones appended, and the number of each requested one."""
    number = dict(specs.number)
    of = np.array([number.setdefault(spec, len(number)) for spec in more], np.int32)
    rows = list(number)
    if len(rows) == len(specs.rows):
        return specs, of
    new = rows[len(specs.rows) :]
    requirement, requirements = _numbered(specs.node_requirements, [spec.node_requirement for spec in new])
    tolerations, toleration_sets = _numbered(specs.toleration_sets, [spec.tolerations for spec in new])
    joined = specs._replace(
        rows=rows,
        number=number,
        node_requirement=np.concatenate([specs.node_requirement, requirement]),
        node_requirements=requirements,
        tolerations=np.concatenate([specs.tolerations, tolerations]),
        toleration_sets=toleration_sets,
    )
    return joined, of


_Value = TypeVar("_Value", bound=Hashable)


def _numbered(known: list[_Value], values: list[_Value]) -> tuple[Int32, list[_Value]]:
    """Number values; known ones keep their numbers."""
    of, distinct = number_values([*known, *values])
    return of[len(known) :], distinct


def _sources(given: Simulation, specs: SchedulingSpecs, spec: Int32, new: NewClasses) -> _Sources | None:
    """Return the source of each class, None if one has no source."""
    twin = _alike(given.pods, _shapes(specs), spec, new)
    lists = twin.copy()
    blocked = given.state.blocked[np.maximum(twin, 0)]
    missing = twin == NONE
    if missing.any():
        plain = np.array([is_plain(row) for row in specs.rows], np.int32)
        lists[missing] = _alike(given.pods, plain, spec, new)[missing]
        # If no term selects them, pods without constraints have no lists.
        unseen = new.namespace == len(given.pods.namespaces) - 1
        by_node = _blocked(given, specs, spec[missing])
        if by_node is None or (missing & ((lists == NONE) & ~unseen | (plain[spec] == 0))).any():
            return None
        lists[missing & unseen] = _NOTHING
        blocked[missing] = by_node
    return _Sources(lists, blocked)


def _shapes(specs: SchedulingSpecs) -> Int32:
    """Number scheduling specs, ignoring their requests : int32[specs]."""
    rest, _ = number_values([spec[3:] for spec in specs.rows])
    columns = (specs.node_requirement, specs.tolerations, rest)
    return group_columns([(column, int(column.max(initial=0)) + 1) for column in columns]).of


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


def _blocked(given: Simulation, specs: SchedulingSpecs, spec: Int32) -> UInt8 | None:
    """Join the static predicates of plain specs : uint8[C, K], None if no class has the node requirement of one."""
    nodes = given.nodes
    of, tolerations = number_values([specs.rows[at].tolerations for at in spec.tolist()])
    bare = untolerated(tolerations, nodes.taint_sets)[:, nodes.taint_set]
    blocked = bare * np.uint8(static_bit(PredicateReason.TAINT_NOT_TOLERATED))
    cordoned = node_unschedulable.excluded(tolerations, nodes.unschedulable)
    blocked |= cordoned * np.uint8(static_bit(PredicateReason.NODE_UNSCHEDULABLE))
    out: UInt8 = blocked[of]
    having = np.full(len(specs.node_requirements), NONE, np.int64)
    having[specs.node_requirement[given.pods.spec]] = np.arange(given.pods.size)
    for number, requirement in enumerate(specs.node_requirements):
        wanted = specs.node_requirement[spec] == number
        if requirement == _NO_REQUIREMENT or not wanted.any():
            continue
        if having[number] == NONE:
            return None
        out[wanted] |= given.state.blocked[having[number]] & np.uint8(_BY_REQUIREMENT)
    return out


def _requests(resources: tuple[str, ...], specs: list[SchedulingSpec]) -> Int64:
    column = {name: at for at, name in enumerate(resources)}
    request = np.zeros((len(specs), len(resources)), np.int64)
    for at, spec in enumerate(specs):
        for name, amount in spec.requests:
            if name in column and name != PODS:
                request[at, column[name]] = amount
    request[:, POD_ROOM] = 1
    return request


def _more(lists: Lists, sources: Int64) -> Lists:
    """Return the lists with those of the sources appended, empty ones for _NOTHING."""
    at = np.maximum(sources, 0)
    lengths = np.where(sources == _NOTHING, 0, lists.offsets[at + 1] - lists.offsets[at]).astype(np.int64)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    item = (
        np.arange(total) - np.repeat(ends - lengths, lengths) + np.repeat(lists.offsets[at].astype(np.int64), lengths)
    )
    return Lists(
        np.concatenate([lists.offsets, lists.offsets[-1] + ends]).astype(np.int32),
        np.concatenate([lists.items, lists.items[item]]),
    )


def _appended(column: UInt8, sources: Int64, otherwise: int) -> UInt8:
    more = np.where(sources == _NOTHING, np.uint8(otherwise), column[np.maximum(sources, 0)])
    return np.concatenate([column, more.astype(np.uint8)])


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
