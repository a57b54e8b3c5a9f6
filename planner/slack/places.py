"""The nodes of placeholders: which of the last loop remain, which are pushed out, and the places of the others.

Works on the round's simulation and leaves the placeholders in it. N nodes, virtual ones included; M placeholders in the
order in which they are placed, which is that of the virtual pods. O(M + N), and one scan over the nodes for each set
that has placeholders to place.

A gang of placeholders has places for all, or for none. First, all keep the nodes of the last loop as far as there is
room. A gang that is not whole then looks for more; with a topology key, it looks in each domain of nodes, as the
scheduler does, and takes the first one with room for all of it. One that finds no room leaves its nodes, to be placed
by scale-up as a whole, on these and new ones. O(N) for each gang and domain that amounts do not rule out.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, overload

import numpy as np

from trimtab.planner.facts.labels import values_by_label_set
from trimtab.planner.model.tuning import PLACEHOLDER_RUNS
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.round.round import HeldGang
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import remove
from trimtab.planner.simulation.log import check_log
from trimtab.planner.simulation.state import OPEN
from trimtab.planner.slack.kernels.places import choose_staying, place_placeholders
from trimtab.planner.slack.placeholder_sets import PlaceholderSet, SizeColumns
from trimtab.planner.slack.state import PreviousSets
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE, Bool, Float64, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY
from trimtab.planner.snapshot.references import NONE, take_or

_NO_DOMAIN: Final = -1
_MOST: Final = 2**31


class PlaceholderTable(NamedTuple):
    """The required placeholders, M of them.

    sets : in the order in which they are placed; sizes : of the sets; bounds : int64[Q+1], the placeholders of each;
    by_name : int64[Q], the sets sorted by name; number : int32[M] in its set; before : int32[M] node of the last loop,
    NO_NODE or UNKNOWN_NODE.
    """

    sets: tuple[PlaceholderSet, ...]
    sizes: SizeColumns
    bounds: Int64
    by_name: Int64
    number: Int32
    before: Int32

    def of_sets(self) -> list[slice]:
        """Return the range of the placeholders of each set."""
        return [slice(first, last) for first, last in pairwise(self.bounds.tolist())]

    def named(self) -> list[tuple[PlaceholderSet, slice]]:
        """Return the sets by name, with the ranges of their placeholders."""
        places = self.of_sets()
        return [(self.sets[at], places[at]) for at in self.by_name.tolist()]

    def count_on(self, chosen: Bool) -> Int64:
        """Return how many placeholders of each set are chosen : bool[M]. int64[Q]."""
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(chosen)])
        counts: Int64 = np.diff(upto[self.bounds])
        return counts


class PlaceholderNames(Sequence[str]):
    """The names of the placeholders of a table, in its order; built on first use, rarely in a plan in which nothing
    moves."""

    def __init__(self, placeholder_table: PlaceholderTable) -> None:
        self._table = placeholder_table

    def __len__(self) -> int:
        return len(self._table.number)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        return self._made[at]

    @cached_property
    def _made(self) -> list[str]:
        found: list[str] = []
        numbers = [*map(str, self._table.number.tolist())]
        for one, where in zip(self._table.sets, self._table.of_sets(), strict=True):
            prefix = f"{one.name}-"
            found += [prefix + number for number in numbers[where]]
        return found


class PlaceholderNodes(NamedTuple):
    """node : int32[M], from the snapshot's N on a virtual one, NO_NODE = no place; pushed_out : bool[M], had to leave
    its node; tried : int64[Q] number of nodes that the search of each set has tried."""

    node: Int32
    pushed_out: Bool
    tried: Int64


def placeholder_table(
    sets: Sequence[PlaceholderSet], sizes: SizeColumns, previous: PreviousSets, snapshot: Snapshot
) -> PlaceholderTable:
    """Return the placeholders: those of the last loop up to the required number, and new ones.

    Sets are sorted by the largest share of a node that one of their placeholders takes, large ones first, then by name.
    """
    names = [one.name for one in sets]
    by_name = np.array(sorted(range(len(sets)), key=names.__getitem__), np.int64)
    order = by_name if len(by_name) < 2 else by_name[np.argsort(-_shares(sizes, snapshot)[by_name], kind="stable")]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    chosen = order.tolist()
    ordered = tuple([sets[at] for at in chosen])
    count = np.array([one.number for one in ordered], np.int64)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    row_before = np.array([previous.row.get(names[at], NONE) for at in chosen], np.int64)
    number, before = _of_last_loop(bounds, row_before, previous)
    return PlaceholderTable(ordered, sizes.taken(order), bounds, place[by_name], number, before)


def _shares(sizes: SizeColumns, snapshot: Snapshot) -> Float64:
    """Return the largest share of a node's resources that a placeholder of each set takes. float64[Q]."""
    # numpy is slow along rows, of which there are thousands.
    by_resource = np.ascontiguousarray(snapshot.nodes.allocatable.T)
    most = dict(zip(snapshot.resources, by_resource.max(axis=1, initial=1).tolist(), strict=True))
    most_each = np.array([max(most.get(name, 0), 1) for name in sizes.resources], np.int64)
    shares: Float64 = (sizes.amounts / most_each).max(axis=1, initial=0.0)
    return shares


def _of_last_loop(bounds: Int64, row_before: Int64, previous: PreviousSets) -> tuple[Int32, Int32]:
    """Return numbers and nodes of all placeholders, with only the difference to the last loop changed. int32[M] each.

    bounds : int64[Q+1]; row_before : int64[Q] row of each set in the state, NONE = new.
    """
    count, first = np.diff(bounds), previous.bounds[:-1]
    number = (np.arange(bounds[-1]) - np.repeat(bounds[:-1], count)).astype(np.int32)
    node = np.full(len(number), NO_NODE, np.int32)
    had = take_or(np.diff(previous.bounds), row_before, 0)
    same = (row_before != NONE) & (had == count)
    rows = np.flatnonzero(np.repeat(same, count))
    source = number[rows] + np.repeat(take_or(first, row_before[same], 0), count[same])
    number[rows], node[rows] = previous.number[source], previous.node[source]
    for at in np.flatnonzero((row_before != NONE) & ~same).tolist():
        row = row_before[at]
        here, there = slice(bounds[at], bounds[at + 1]), slice(previous.bounds[row], previous.bounds[row + 1])
        number[here], node[here] = _as_many(int(count[at]), previous.number[there], previous.node[there])
    return number, node


def _as_many(count: int, present_numbers: Int32, present_nodes: Int32) -> tuple[Int32, Int32]:
    """Return numbers and nodes of `count` placeholders of a set.

    If there are too many, those on no node are dropped first, then the last ones; new ones get the lowest free numbers.
    """
    present = len(present_numbers)
    if present > count:
        stays = np.sort(np.argsort(present_nodes < 0, kind="stable")[:count])
        return present_numbers[stays], present_nodes[stays]
    free = np.setdiff1d(np.arange(count, dtype=np.int32), present_numbers)[: count - present]
    number = np.concatenate([present_numbers, free])
    node = np.concatenate([present_nodes, np.full(count - present, NO_NODE, np.int32)])
    order = np.argsort(number, kind="stable")
    return number[order].astype(np.int32), node[order].astype(np.int32)


def arrange(simulation: Simulation, table: PlaceholderTable, first_pod: int, allowed: Bool) -> PlaceholderNodes:
    """Place the placeholders. first_pod : number of the first of them; allowed : bool[nodes of the snapshot].

    Raises MoveLogFullError.
    """
    state = simulation.state
    every = np.concatenate([allowed, np.ones(len(state.node_state) - len(allowed), np.bool_)])
    every &= state.node_state == OPEN
    pods = np.arange(first_pod, first_pod + len(table.before), dtype=np.int64)
    hint = _hints(simulation, table, pods, every)
    tried = np.zeros(len(table.sets), np.int64)
    order = _order(simulation, table, hint, every)
    in_gangs = _are_gangs(table)
    if in_gangs.any():
        # What fits only together comes before what fits by itself.
        place_gangs(simulation, table.sets, SearchedNodes(order, every), table.bounds, pods, hint)
        single, count = ~in_gangs, np.diff(table.bounds)
        rows = np.repeat(single, count)
        bounds, found = np.concatenate([[0], np.cumsum(count[single])]), tried[single]
        place_placeholders(state, bounds, pods[rows], hint[rows], order, every, found)
        tried[single] = found
    else:
        place_placeholders(state, table.bounds, pods, hint, order, every, tried)
    check_log(state)
    node = state.pod_node[pods].astype(np.int32)
    was_there = (table.before >= 0) | (table.before == UNKNOWN_NODE)
    had_to_leave = was_there & (node != table.before)
    return PlaceholderNodes(node, had_to_leave, tried)


def _are_gangs(table: PlaceholderTable) -> Bool:
    """Return which sets are gangs. bool[Q]."""
    return np.fromiter((one.is_gang for one in table.sets), np.bool_, len(table.sets))


def _hints(simulation: Simulation, table: PlaceholderTable, pods: Int64, allowed: Bool) -> Int32:
    """Return the node of the last loop of each placeholder that may stay there, else NO_NODE. int32[M]."""
    resources = simulation.state.resources
    rows = np.flatnonzero(take_or(allowed, table.before, False))
    rows = rows[np.argsort(table.before[rows], kind="stable")]
    node = table.before[rows]
    first = np.flatnonzero(np.diff(node, prepend=NO_NODE))
    stays = np.zeros(len(rows), np.bool_)
    choose_staying(
        resources.free,
        resources.request,
        simulation.state.pod_class[pods[rows]],
        np.append(first, len(rows)).astype(np.int64),
        node[first],
        np.zeros((4, PLACEHOLDER_RUNS + 1), np.int64),
        stays,
    )
    hint = np.full(len(table.before), NO_NODE, np.int32)
    hint[rows[stays]] = node[stays]
    return hint


def _order(simulation: Simulation, table: PlaceholderTable, hint: Int32, allowed: Bool) -> Int32:
    """Return the nodes to search, int32: the fullest first, to let emptier ones be removed; upcoming ones last.

    Nodes with less of a resource than the smallest placeholder needs are left out. The result is empty if no
    placeholder has to be placed.
    """
    # A gang that is not whole leaves the nodes that it has.
    searching = (table.count_on(hint == NO_NODE) > 0) | _are_gangs(table)
    if not searching.any():
        # A hint can fail because of affinity or spread; such a placeholder needs other nodes to try.
        if simulation.state.local_class.all() or not len(searching):
            return np.zeros(0, np.int32)
        searching[:] = True
    free, real = simulation.state.resources.free, simulation.node_count
    enough = allowed.copy()
    for column, name in enumerate(simulation.resources[:2]):
        enough &= free[:, column] >= table.sizes.of(name)[searching].min()
    allocatable = simulation.snapshot.nodes.allocatable[:, [CPU, MEMORY]]
    share = (free[:real, :2] / np.maximum(allocatable, 1)).min(axis=1, initial=np.inf)
    nodes = np.flatnonzero(enough[:real])
    nodes = nodes[np.argsort(share[nodes], kind="stable")]
    return np.concatenate([nodes, real + np.flatnonzero(enough[real:])]).astype(np.int32)


class SearchedNodes(NamedTuple):
    """order : int32, nodes to search, best first; allowed : bool[N']."""

    order: Int32
    allowed: Bool


def held_gangs(sets: Sequence[PlaceholderSet]) -> tuple[HeldGang, ...]:
    """Return the gangs among sets of placeholders, in their order. On one node each, an affinity is enough: new nodes
    have no domain before they have a name."""
    return tuple(
        HeldGang(at, one.pod.namespace, one.name, "" if one.topology_key == HOSTNAME else one.topology_key)
        for at, one in enumerate(sets)
        if one.is_gang
    )


def place_gangs(
    simulation: Simulation,
    sets: Sequence[PlaceholderSet],
    nodes: SearchedNodes,
    bounds: Int64,
    pods: Int64,
    hint: Int32,
) -> None:
    """Place all placeholders with a hint, then gangs in their order. bounds : int64[Q+1], pods of each set; pods :
    int64[M]; hint : int32[M] node or -1."""
    state = simulation.state
    place_placeholders(state, bounds, pods, hint, nodes.order[:0], nodes.allowed, np.zeros(len(sets), np.int64))
    domains: dict[str, Int32] = {}
    for one in held_gangs(sets):
        mine = pods[bounds[one.set] : bounds[one.set + 1]]
        if _is_whole(simulation, mine, nodes):
            continue
        key = sets[one.set].topology_key
        if key and key not in domains:
            domains[key] = _domain_of_nodes(simulation, key)
        _remove(simulation, mine)
        for order in _domains(simulation, mine, nodes, domains[key]) if key else ():
            if _is_whole(simulation, mine, SearchedNodes(order, nodes.allowed)):
                break
            _remove(simulation, mine)


def _is_whole(simulation: Simulation, pods: Int64, nodes: SearchedNodes) -> bool:
    """Place those of a gang's pods that are on no node; return whether all have one."""
    state, none = simulation.state, np.full(len(pods), NO_NODE, np.int32)
    bounds = np.array([0, len(pods)], np.int64)
    place_placeholders(state, bounds, pods, none, nodes.order, nodes.allowed, np.zeros(1, np.int64))
    return bool((state.pod_node[pods] != NO_NODE).all())


def _remove(simulation: Simulation, pods: Int64) -> None:
    for pod in pods[simulation.state.pod_node[pods] != NO_NODE].tolist():
        remove(simulation.state, pod)


def _domains(simulation: Simulation, pods: Int64, nodes: SearchedNodes, domain: Int32) -> Iterator[Int32]:
    """Yield the nodes of each domain that has room for all pods by amounts, in the order in which they are searched.
    domain : int32[N']."""
    order = nodes.order[domain[nodes.order] != _NO_DOMAIN]
    if not len(order):
        return
    resources = simulation.state.resources
    request = resources.request[simulation.state.pod_class[pods[0]]]
    asked = np.flatnonzero(request > 0)
    room = np.maximum(resources.free[np.ix_(order, asked)], 0) // request[asked]
    slots = np.bincount(domain[order], room.min(axis=1, initial=_MOST))
    for value in np.flatnonzero(slots >= len(pods)).tolist():
        yield order[domain[order] == value]


def _domain_of_nodes(simulation: Simulation, key: str) -> Int32:
    """Return the domain of each node, virtual ones included, by a label : int32[N'], _NO_DOMAIN without it."""
    if key == HOSTNAME:
        return np.arange(len(simulation.state.node_state), dtype=np.int32)
    snapshot = simulation.snapshot
    by_set = values_by_label_set(snapshot, key)
    values = [by_set[at] for at in snapshot.nodes.label_set.tolist()]
    for one in simulation.virtual.nodes:
        values += [dict(one.template.labels).get(key)] * len(one.names)
    number = {name: at for at, name in enumerate(sorted({value for value in values if value is not None}))}
    return np.array([_NO_DOMAIN if value is None else number[value] for value in values], np.int32)
