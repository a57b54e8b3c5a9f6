"""The problem in numbers of the expander CHEAPEST_PLAN, from the pods that are left and the groups that may grow.

Contains amounts, static predicates, limits of groups, and the effect of affinity and spread as far as it is the same on
every node or zone: how many pods of a class, or of several classes together, one node takes, and how many each zone.
Classes that differ in none of this share a row. Other constraints take effect when the pods are placed. Pure.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.similarity import ZONE_LABEL
from trimtab.planner.placement.group_bounds import GroupBounds
from trimtab.planner.placement.packing import GrowingGroups, Packed, pack
from trimtab.planner.scale_up.cheapest.problem import NO_ZONE, UNLIMITED, Problem, with_node_limit
from trimtab.planner.scale_up.context import Context
from trimtab.planner.scale_up.growing import Growing
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

MOST_ALONE: Final = 256
"""Maximum number of kinds of classes whose pods are packed alone; those with most pods come first."""
MOST_BOUND: Final = 4096
"""Maximum number of classes that are sorted into such kinds; those with most pods come first."""
MOST_SETS: Final = 16
"""Maximum number of sets of classes in the problem that have a limit on a node together."""
SCARCE: Final = 4
"""Pods that spread over nodes have a limit in the problem if there are more than one for this many nodes. The places of
fewer are found when the pods are placed."""


class _NodeLimit(NamedTuple):
    """rows : classes, ascending, of which a node takes `most` pods together."""

    rows: tuple[int, ...]
    most: int


class _PodsOfRows(NamedTuple):
    """pods : int32[M]; row : int64[M] of each."""

    pods: Int32
    row: Int64


def whole_problem(context: Context, growing: Growing, bounds: GroupBounds, left: Int32) -> tuple[Problem, Int64]:
    """Return the problem for pods left : int32, and the row of each class of `bounds`. int64[C]."""
    state, rooms = growing.state, growing.limits.rooms
    # A group that grows by one node or by none is treated like any other.
    is_atomic = np.array([group.zero_or_max for group in growing.groups], bool) & (rooms > 1)
    zone, zone_count = _zones(context)
    problem = Problem(
        demand=state.resources.request[bounds.classes],
        pods=bounds.counts,
        allowed=bounds.admitted,
        capacity=bounds.free,
        price=np.array([group.price_per_hour for group in growing.groups], np.float64),
        most=np.where(is_atomic, 0, np.minimum(rooms, growing.blanks_left)),
        per_node=np.full(len(bounds.classes), UNLIMITED),
        zone=zone,
        zone_most=np.full((len(bounds.classes), zone_count), UNLIMITED),
    )
    found = [*_apart(state, bounds.classes), *_alone(growing, problem, bounds.classes, left)]
    nodes = _least_nodes(problem, found)
    found += _spread(state, problem, bounds.classes, nodes)
    return _merged(_with_limits(problem, found), bounds.kind)


def _with_limits(problem: Problem, limits: list[_NodeLimit]) -> Problem:
    """Return the problem with the limits of a node: on the pods of each class, and of the sets of several classes with
    most pods, at most MOST_SETS, on all of them."""
    for rows, most in limits:
        at = list(rows)
        problem.per_node[at] = np.minimum(problem.per_node[at], most)
    sets = sorted({one for one in limits if len(one.rows) > 1}, key=lambda one: (-_pods(problem, one), one))
    for rows, most in sets[:MOST_SETS]:
        problem = with_node_limit(problem, np.isin(np.arange(len(problem.pods)), rows), most)
    return problem


def _pods(problem: Problem, limit: _NodeLimit) -> int:
    return int(problem.pods[list(limit.rows)].sum())


def _merged(problem: Problem, kind: Int64) -> tuple[Problem, Int64]:
    """Return the problem with one row for all classes of a kind that have no limit of their own, and the row of each
    class. kind : int64[C] as in `GroupBounds`."""
    count = len(problem.pods)
    free = (problem.per_node == UNLIMITED) & (problem.zone_most == UNLIMITED).all(axis=1)
    _, one_of, row_of = np.unique(
        np.where(free, kind, count + np.arange(count)), return_index=True, return_inverse=True
    )
    row_of = row_of.reshape(-1).astype(np.int64)
    merged = problem._replace(
        demand=problem.demand[one_of],
        pods=np.bincount(row_of, problem.pods, len(one_of)).astype(np.int64),
        allowed=problem.allowed[one_of],
        per_node=problem.per_node[one_of],
        zone_most=problem.zone_most[one_of],
    )
    return merged, row_of


def _zones(context: Context) -> tuple[Int32, int]:
    """Return the zone of each group's new nodes, NO_ZONE = none, and how many zones there are."""
    names = [labels.get(ZONE_LABEL) for labels in context.expanders.groups.labels]
    zones = sorted({name for name in names if name is not None})
    place = {name: at for at, name in enumerate(zones)}
    return np.array([NO_ZONE if name is None else place[name] for name in names], np.int32), len(zones)


def _apart(state: SimulationState, classes: Int64) -> Iterator[_NodeLimit]:
    """Yield the sets of classes whose pods exclude each other on a node: of all of them a node takes one pod."""
    presence = state.presence
    counter, row = np.divmod(
        np.intersect1d(
            _of_classes(presence.empty_offsets, presence.empty, classes)[0],
            _of_classes(presence.added_offsets, presence.added, classes)[0],
        ),
        len(classes),
    )
    by_node = state.virtual.own_row[presence.row[counter]] != 0
    yield from (_NodeLimit(rows, 1) for rows in _by_counter(counter[by_node], row[by_node]))


def _spread(state: SimulationState, problem: Problem, classes: Int64, nodes: int) -> Iterator[_NodeLimit]:
    """Yield limits of pods that spread over nodes and count themselves: the skew allowed above the least number on any
    node. nodes : new ones at least. No node has fewer than all pods, placed evenly, would put on it.
    """
    spread = state.spread
    keys, entries = _of_classes(spread.limit_offsets, spread.limit, classes)
    counter, row = np.divmod(np.sort(keys[entries[:, 2] == 1]), len(classes))
    by_node = state.virtual.own_row[spread.pair_row[spread.pair[counter]]] != 0
    counter, row = counter[by_node], row[by_node]
    skew = np.zeros(len(spread.pair), np.int64)
    skew[entries[:, 0]] = entries[:, 1]
    starts = np.flatnonzero(np.diff(counter, prepend=-1))
    for rows, of in zip(_by_counter(counter, row), counter[starts].tolist(), strict=True):
        pods = int(problem.pods[list(rows)].sum())
        among = nodes + int(spread.domains_in[spread.pair[of]])
        most = int(skew[of]) + pods // max(among, 1)
        if most < pods and pods * SCARCE > among:
            yield _NodeLimit(rows, most)


def _by_counter(counter: Int64, row: Int64) -> list[tuple[int, ...]]:
    """Return the rows of each counter. counter, row : int64[n], sorted by counter."""
    if not len(counter):
        return []
    return [tuple(some.tolist()) for some in np.split(row, np.flatnonzero(np.diff(counter)) + 1)]


def _least_nodes(problem: Problem, limits: list[_NodeLimit]) -> int:
    """Return a lower bound on the new nodes, if all pods are served."""
    largest = np.maximum(problem.capacity.max(axis=0, initial=1), 1)
    by_amount = int((-(-(problem.demand * problem.pods[:, None]).sum(axis=0) // largest)).max(initial=0))
    return max([by_amount, *(-(-_pods(problem, one) // max(one.most, 1)) for one in limits)])


def _of_classes(offsets: Int32, entries: Int32, classes: Int64) -> tuple[Int64, Int32]:
    """Return the entries of some classes, int32[n, …]; and for each its counter, times the number of classes, plus the
    position of its class. int64[n].
    """
    lengths = np.diff(offsets)[classes].astype(np.int64)
    at = np.arange(int(lengths.sum())) + np.repeat(offsets[classes] - np.cumsum(lengths) + lengths, lengths)
    found = entries[at]
    return found[:, 0].astype(np.int64) * len(classes) + np.repeat(np.arange(len(classes)), lengths), found


def _alone(growing: Growing, problem: Problem, classes: Int64, left: Int32) -> Iterator[_NodeLimit]:
    """Write how many pods of a class each zone takes, if counters keep others out, and yield limits of a node."""
    state = growing.state
    bound = np.flatnonzero(_bound(state, classes))
    bound = np.sort(bound[np.argsort(-problem.pods[bound], kind="stable")][:MOST_BOUND])
    kinds: dict[tuple[bytes, ...], list[int]] = {}
    for row, of_class in zip(bound.tolist(), classes[bound].tolist(), strict=True):
        kinds.setdefault(_constraints(state, of_class), []).append(row)
    order = sorted(kinds.values(), key=lambda rows: -int(problem.pods[rows].sum()))[:MOST_ALONE]
    row_of = np.full(len(state.local_class), -1, np.int64)
    row_of[classes] = np.arange(len(classes))
    rows_left = row_of[state.pod_class[left]]
    for rows in sorted(order):
        there = np.isin(rows_left, rows) if len(rows) > 1 else rows_left == rows[0]
        yield from _packed_alone(growing, problem, rows, _PodsOfRows(left[there], rows_left[there]))


def _bound(state: SimulationState, classes: Int64) -> Bool:
    """Return the classes whose pods may be kept out of a new node by others of them, or by pods placed before."""
    presence, spread, count = state.presence, state.spread, len(classes)
    added = _of_classes(presence.added_offsets, presence.added, classes)[0]
    empty = _of_classes(presence.empty_offsets, presence.empty, classes)[0]
    filled = _of_classes(presence.filled_offsets, presence.filled, classes)[0]
    keys, limits = _of_classes(spread.limit_offsets, spread.limit, classes)
    sums = np.concatenate([[0], np.cumsum(spread.counts, dtype=np.int64)])
    there = np.diff(sums[np.append(spread.start, len(spread.counts))])
    keeps_out = np.isin(empty, added) | (presence.total[empty // count] > 0)
    uneven = (limits[:, 2] == 1) | (there[keys // count] > 0)
    found: Bool = np.zeros(count, bool)
    for one in (empty[keeps_out], filled, keys[uneven]):
        found[one % count] = True
    found &= state.local_class[classes] == 0
    return found


def _constraints(state: SimulationState, of_class: int) -> tuple[bytes, ...]:
    """Return everything but the amounts that decides where the pods of a class may be, to compare classes."""
    presence, spread = state.presence, state.spread
    lists = (
        (presence.added_offsets, presence.added), (presence.empty_offsets, presence.empty),
        (presence.filled_offsets, presence.filled), (spread.added_offsets, spread.added),
        (spread.limit_offsets, spread.limit),
    )  # fmt: skip
    found = [items[offsets[of_class] : offsets[of_class + 1]].tobytes() for offsets, items in lists]
    return (*found, state.blocked[of_class].tobytes(), presence.starts_group[of_class].tobytes())


def _packed_alone(growing: Growing, problem: Problem, rows: list[int], pods: _PodsOfRows) -> Iterator[_NodeLimit]:
    """Pack the pods of classes with the same constraints alone. Write how many each zone takes, and yield how many one
    node takes, if it is the constraints that keep others out.
    """
    members = _largest_by_zone(problem, rows)
    if not len(members):
        return
    alone = _packed(growing, members[:1], pods.pods)
    found = alone
    if alone.placed < len(pods.pods) and len(members) > 1:
        found = _packed(growing, members, pods.pods)
        if found.placed > alone.placed:
            zone = problem.zone[members[found.group_of]][found.node_of]
            there = (found.node_of >= 0) & (zone >= 0)
            problem.zone_most[rows] = 0
            np.add.at(problem.zone_most, (pods.row[there], zone[there]), 1)
        else:
            found = alone
    if found.nodes and (found.nodes > 1 or found.placed < len(pods.pods)):
        held = np.bincount(found.node_of[found.node_of >= 0], minlength=found.nodes)
        fullest = int(held.argmax())
        there = found.node_of == fullest
        free = problem.capacity[members[found.group_of[fullest]]] - problem.demand[pods.row[there]].sum(axis=0)
        if (problem.demand[np.unique(pods.row[~there])] <= free).all(axis=1).any():
            yield _NodeLimit(tuple(rows), int(held[fullest]))


def _largest_by_zone(problem: Problem, rows: list[int]) -> Int64:
    """Return for each zone the group whose new node has room for most pods of some classes, the largest first. int64.

    Of several classes it takes each, and counts the larger ones.
    """
    takes = problem.demand[rows].max(axis=0)
    need = np.maximum(takes, 1)
    room = (problem.capacity // need)[:, takes > 0].min(axis=1)
    may = np.flatnonzero(problem.allowed[rows].all(axis=0) & (problem.most > 0))
    order = may[np.lexsort((may, -room[may]))]
    _, first = np.unique(problem.zone[order], return_index=True)
    return order[np.sort(first)].astype(np.int64)


def _packed(growing: Growing, groups: Int64, pods: Int32) -> Packed:
    nobody = np.zeros(len(groups), np.int64).tolist()
    most = [growing.blanks_left] * len(groups)
    at_most = GrowingGroups(groups.tolist(), nobody, most)
    return pack(growing.within, at_most, pods, growing.blanks_left, len(growing.group_of))
