"""The nodes of placeholders: which of the last loop remain, which are pushed out, and the places of the others.

Works on the round's simulation and leaves the placeholders in it. N nodes, virtual ones included; M placeholders in the
order in which they are placed, which is that of the virtual pods. O(M + N), and one scan over the nodes for each set
that has placeholders to place.

All keep the nodes of the last loop, large ones first, as far as there is room. A gang of placeholders has places for
all, or for none: one that is not whole then is served anew, as a demand set. If it finds no room, scale-up places it as
a whole, on these nodes and new ones. O(N) for each gang and domain that amounts do not rule out.

The state between loops: names become indices of this snapshot, a vanished node UNKNOWN_NODE; an unreadable state counts
as absent and gives a note.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, repeat
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.new_nodes.demand_sets import DemandServer, DemandSet, Domain, PlacedSet, TopologyDomains
from trimtab.planner.placement.hints import UnreadableStateError
from trimtab.planner.placement.waiting import place_anywhere, place_where
from trimtab.planner.predicates.topologies import HOSTNAME
from trimtab.planner.round.round import HeldGang
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import remove, revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.simulation.state import OPEN, SimulationState
from trimtab.planner.slack.objects import PlaceholderSet, SizeColumns
from trimtab.planner.slack.sizes import Amounts
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE, Bool, Float64, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import CPU, MEMORY
from trimtab.planner.snapshot.references import NONE, take_or
from trimtab.v1 import plan_pb2 as pb


class PreviousSets(NamedTuple):
    """Placeholders of the last loop, M of them in Q sets.

    row : of each set by its name; bounds : int64[Q+1], the placeholders of each; number : int32[M], ascending in each
    set; node : int32[M], NO_NODE or UNKNOWN_NODE; sets : as received.
    """

    row: Mapping[str, int]
    bounds: Int64
    number: Int32
    node: Int32
    sets: Sequence[pb.SlackSetState]

    def sizes(self, names: Iterable[str]) -> dict[str, Amounts]:
        """Return the size of the placeholders of some sets, for those in the state."""
        return {name: dict(sorted(self.sets[self.row[name]].size.items())) for name in names if name in self.row}


NO_PREVIOUS_SETS: Final = PreviousSets({}, np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), ())


def recall(state: pb.SlackState | None, place: Callable[[], Mapping[str, int]]) -> tuple[PreviousSets, tuple[str, ...]]:
    """Return the state in terms of the snapshot's nodes, and notes. place : returns their rows by name."""
    if state is None:
        return NO_PREVIOUS_SETS, ()
    node_of = np.full(max(len(state.strings), 1), NO_NODE, np.int32)
    if len(node_of) > 1:
        node_of[1:] = np.fromiter(map(place().get, state.strings[1:], repeat(UNKNOWN_NODE)), np.int32, len(node_of) - 1)
    try:
        return _read(state.sets, node_of), ()
    except UnreadableStateError as error:
        return NO_PREVIOUS_SETS, (f"slack state could not be read ({error}): starting with empty state",)


def _read(sets: Sequence[pb.SlackSetState], node_of: Int32) -> PreviousSets:
    names = [state_set.name for state_set in sets]
    number, bounds = _column([state_set.number for state_set in sets], names, "number")
    string, bounds_of_nodes = _column([state_set.node for state_set in sets], names, "node")
    _check(np.diff(bounds) == np.diff(bounds_of_nodes), names, "the columns of {} differ in length")
    # Each is compared with the one before it in its set, the first with -1.
    before = np.roll(number, 1)
    before[bounds[:-1][np.diff(bounds) > 0]] = -1
    _check_rows(number > before, bounds, names, "{}.number is not ascending")
    is_there = (string >= 0) & (string < len(node_of))
    _check_rows(is_there, bounds, names, "{}.node refers to a missing string")
    return PreviousSets({name: at for at, name in enumerate(names)}, bounds, number, node_of[string], sets)


def _column(parts: Sequence[bytes], names: Sequence[str], field: str) -> tuple[Int32, Int64]:
    """Return a column over all sets, and the range of each set in it. Raises UnreadableStateError."""
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    _check(sizes % 4 == 0, names, f"the bytes of {{}}.{field} are not a multiple of 4")
    column: NDArray[np.int32] = np.frombuffer(b"".join(parts), "<i4").astype(np.int32)
    return column, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes // 4)])


def _check(is_right: Bool, names: Sequence[str], problem: str) -> None:
    """Raise UnreadableStateError with the name of the first invalid set. is_right : bool[Q]."""
    if not is_right.all():
        raise UnreadableStateError(problem.format(names[int(np.argmin(is_right))]))


def _check_rows(is_right: Bool, bounds: Int64, names: Sequence[str], problem: str) -> None:
    """The same with is_right : bool[M]."""
    if not is_right.all():
        raise UnreadableStateError(
            problem.format(names[int(np.searchsorted(bounds, np.argmin(is_right), "right")) - 1])
        )


def remember(
    heads: Iterable[tuple[pb.SlackSetState, slice]], number: Int32, node: Int32, names: Sequence[str]
) -> bytes:
    """Return the encoded state.

    heads : for each set, by name, its name and size, and the range of its placeholders; number : int32[M]; node
    : int32[M], NO_NODE = on no node; names : of the snapshot's nodes.
    """
    is_used = np.zeros(len(names), np.bool_)
    is_used[node[node >= 0]] = True
    string = take_or(np.cumsum(is_used), node, 0)
    numbers, strings = number.astype("<i4").tobytes(), string.astype("<i4").tobytes()
    used = np.flatnonzero(is_used).tolist()
    state = pb.SlackState(strings=["", *map(names.__getitem__, used)])
    for head, where in heads:
        rows, message = slice(4 * where.start, 4 * where.stop), state.sets.add()
        message.CopyFrom(head)
        message.number, message.node = numbers[rows], strings[rows]
    return state.SerializeToString(deterministic=True)


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

    def names(self) -> list[str]:
        """Return the names of all placeholders."""
        prefix = [f"{entry.name}-" for entry in self.sets]
        of_set = np.repeat(np.arange(len(prefix)), np.diff(self.bounds)).tolist()
        return [f"{prefix[at]}{number}" for at, number in zip(of_set, self.number.tolist(), strict=True)]

    def count_on(self, chosen: Bool) -> Int64:
        """Return how many placeholders of each set are chosen : bool[M]. int64[Q]."""
        upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(chosen)])
        counts: Int64 = np.diff(upto[self.bounds])
        return counts


class PlaceholderNodes(NamedTuple):
    """node : int32[M], from the snapshot's N on a virtual one, NO_NODE = no place; pushed_out : bool[M], had to leave
    its node."""

    node: Int32
    pushed_out: Bool


def placeholder_table(
    sets: Sequence[PlaceholderSet], sizes: SizeColumns, previous: PreviousSets, snapshot: Snapshot
) -> PlaceholderTable:
    """Return the placeholders: those of the last loop up to the required number, and new ones.

    Sets are sorted by the largest share of a node that one of their placeholders takes, large ones first, then by name.
    """
    names = [entry.name for entry in sets]
    by_name = np.array(sorted(range(len(sets)), key=names.__getitem__), np.int64)
    order = by_name if len(by_name) < 2 else by_name[np.argsort(-_shares(sizes, snapshot)[by_name], kind="stable")]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    chosen = order.tolist()
    ordered = tuple([sets[at] for at in chosen])
    count = np.array([entry.number for entry in ordered], np.int64)
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
    row_before = np.array([previous.row.get(names[at], NONE) for at in chosen], np.int64)
    number, before = _of_last_loop(bounds, row_before, previous)
    return PlaceholderTable(ordered, sizes.taken(order), bounds, place[by_name], number, before)


def _shares(sizes: SizeColumns, snapshot: Snapshot) -> Float64:
    """Return the largest share of a node's resources that a placeholder of each set takes. float64[Q]."""
    # numpy is slow along rows, of which there are thousands.
    by_resource = np.ascontiguousarray(snapshot.nodes.allocatable.T)
    largest = dict(zip(snapshot.resources, by_resource.max(axis=1, initial=1).tolist(), strict=True))
    most_each = np.array([max(largest.get(name, 0), 1) for name in sizes.resources], np.int64)
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
    pods = np.arange(first_pod, first_pod + len(table.before), dtype=np.int32)
    last = np.full(len(state.pod_node), NO_NODE, np.int32)
    last[pods] = table.before
    place_where(state, every, pods, last)
    gangs = [(gang, pods[table.bounds[gang.set] : table.bounds[gang.set + 1]]) for gang in held_gangs(table.sets)]
    gangs = [(gang, mine) for gang, mine in gangs if (state.pod_node[mine] == NO_NODE).any()]
    for _, mine in gangs:
        for pod in mine[state.pod_node[mine] != NO_NODE].tolist():
            remove(state, pod)
    order = _order(simulation, table, pods, every)
    # What fits only together comes before what fits by itself.
    server, domains = DemandServer(_RoomPlacer(state, last, order, every)), TopologyDomains(simulation, (), order)
    for gang, mine in gangs:
        key = table.sets[gang.set].topology_key
        demand = DemandSet(gang.name, mine, len(mine), np.zeros(len(mine), bool), key)
        if choice := domains.of(demand):
            server.serve(demand, choice)
    if len(order):
        single = np.repeat([not gang.is_gang for gang in table.sets], np.diff(table.bounds))
        place_anywhere(state, order, every, pods[single])
    check_log(state)
    node = state.pod_node[pods].astype(np.int32)
    was_there = (table.before >= 0) | (table.before == UNKNOWN_NODE)
    return PlaceholderNodes(node, was_there & (node != table.before))


def _order(simulation: Simulation, table: PlaceholderTable, pods: Int32, allowed: Bool) -> Int32:
    """Return the nodes to search, int32: the fullest first, to let emptier ones be removed; upcoming ones last.

    Nodes with less of a resource than the smallest placeholder without a node needs are left out. Empty if each has
    one. pods : int32 the placeholders; allowed : bool[N'].
    """
    searching = table.count_on(simulation.state.pod_node[pods] == NO_NODE) > 0
    if not searching.any():
        return np.zeros(0, np.int32)
    free, real = simulation.state.resources.free, simulation.node_count
    enough = allowed.copy()
    for column, name in enumerate(simulation.resources[:2]):
        enough &= free[:, column] >= table.sizes.of(name)[searching].min()
    allocatable = simulation.snapshot.nodes.allocatable[:, [CPU, MEMORY]]
    share = (free[:real, :2] / np.maximum(allocatable, 1)).min(axis=1, initial=np.inf)
    nodes = np.flatnonzero(enough[:real])
    nodes = nodes[np.argsort(share[nodes], kind="stable")]
    return np.concatenate([nodes, real + np.flatnonzero(enough[real:])]).astype(np.int32)


class _RoomPlacer:
    """Places a gang on existing and upcoming nodes, those of the last loop first. last : int32[P'] these, -1 = none;
    order : int32, nodes to search, best first; allowed : bool[N']."""

    def __init__(self, state: SimulationState, last: Int32, order: Int32, allowed: Bool) -> None:
        self.state, self._last, self._order, self._allowed = state, last, order, allowed

    def checkpoint(self) -> int:
        return current_mark(self.state)

    def return_to(self, before: int) -> None:
        revert(self.state, before)

    def ways(self, demand: DemandSet) -> tuple[int, ...]:  # noqa: ARG002
        return (0,)

    def place(self, demand: DemandSet, domain: Domain, way: int) -> PlacedSet:  # noqa: ARG002
        allowed = self._allowed if domain.reach is None else self._allowed & domain.reach.nodes
        place_where(self.state, allowed, demand.pods, self._last)
        place_anywhere(self.state, self._order[allowed[self._order]], allowed, demand.pods)
        check_log(self.state)
        last, node = self._last[demand.pods], self.state.pod_node[demand.pods]
        return PlacedSet(int((node == NO_NODE).sum()), (0, 0.0, 0, int(((last >= 0) & (node != last)).sum())))

    def why(self, demand: DemandSet, domain: Domain, lacking: int) -> int:  # noqa: ARG002
        return lacking

    def in_time(self) -> bool:
        return True


def held_gangs(sets: Sequence[PlaceholderSet]) -> tuple[HeldGang, ...]:
    """Return the gangs among sets of placeholders, in their order. On one node each, an affinity is enough: new nodes
    have no domain before they have a name."""
    return tuple(
        HeldGang(
            at,
            entry.pod.namespace,
            entry.name,
            "" if entry.topology_key == HOSTNAME else entry.topology_key,
        )
        for at, entry in enumerate(sets)
        if entry.is_gang
    )
