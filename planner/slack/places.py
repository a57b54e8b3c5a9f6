"""Where placeholders are: which of the last loop remain, which are pushed out, and where the others go.

Works on the round's simulation and leaves the placeholders in it. N nodes, virtual ones included; M placeholders in the
order in which they are placed, which is that of the virtual pods. O(M + N), and one scan over the nodes for each set
that has placeholders to place.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from planner.simulation.build import Simulation
from planner.simulation.log import check_log
from planner.simulation.state import NOWHERE, OPEN
from planner.slack.kernels.places import RUNS, choose_kept, settle
from planner.slack.sets import PlaceholderSet
from planner.slack.state import GONE, NONE, Memory, SetMemory
from planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from planner.snapshot.dictionaries import CPU, MEMORY


class Roster(NamedTuple):
    """The placeholders that there are to be, M of them.

    sets : in the order in which they are placed; bounds : int64[Q+1], the placeholders of each; number : int32[M] in
    its set; before : int32[M] node of the last loop, NONE or GONE.
    """

    sets: tuple[PlaceholderSet, ...]
    bounds: Int64
    number: Int32
    before: Int32

    def of_sets(self) -> list[slice]:
        """Return where the placeholders of each set are."""
        return [slice(first, last) for first, last in pairwise(self.bounds.tolist())]

    def names(self) -> list[str]:
        """Return the names of all placeholders, in order."""
        return [
            f"{one.name}-{number}"
            for one, where in zip(self.sets, self.of_sets(), strict=True)
            for number in self.number[where].tolist()
        ]


class Placed(NamedTuple):
    """node : int32[M], from N of the snapshot on a virtual one, NONE = no place; pushed_out : bool[M], had to leave its
    node; tried : int64[Q] nodes that the search of each set has tried."""

    node: Int32
    pushed_out: Bool
    tried: Int64


def roster(sets: Sequence[PlaceholderSet], memory: Memory, snapshot: Snapshot) -> Roster:
    """Return the placeholders: those of the last loop as far as there are to be so many, and new ones.

    Sets go by the largest share of a node that one of theirs takes, large ones first, then by name.
    """
    most = dict(zip(snapshot.resources, snapshot.nodes.allocatable.max(axis=0, initial=1).tolist(), strict=True))
    share = {
        one.name: max((amount / max(most.get(name, 0), 1) for name, amount in one.size.items()), default=0.0)
        for one in sets
    }
    ordered = tuple(sorted(sets, key=lambda one: (-share[one.name], one.name)))
    rows = [_of_last_loop(one.number, memory.get(one.name)) for one in ordered]
    none = np.zeros(0, np.int32)
    return Roster(
        ordered,
        np.cumsum([0, *(one.number for one in ordered)]).astype(np.int64),
        np.concatenate([none, *(number for number, _ in rows)]),
        np.concatenate([none, *(node for _, node in rows)]),
    )


def _of_last_loop(count: int, known: SetMemory | None) -> tuple[Int32, Int32]:
    """Return numbers and nodes of `count` placeholders of a set, only the difference to the last loop changed.

    Of too many those on no node go first, then the last ones; new ones get the lowest free numbers.
    """
    if known is None:
        return np.arange(count, dtype=np.int32), np.full(count, NONE, np.int32)
    present = len(known.number)
    if present > count:
        kept = np.sort(np.argsort(known.node < 0, kind="stable")[:count])
        return known.number[kept], known.node[kept]
    free = np.setdiff1d(np.arange(count, dtype=np.int32), known.number)[: count - present]
    number = np.concatenate([known.number, free])
    node = np.concatenate([known.node, np.full(count - present, NONE, np.int32)])
    order = np.argsort(number, kind="stable")
    return number[order].astype(np.int32), node[order].astype(np.int32)


def arrange(simulation: Simulation, wanted: Roster, first_pod: int, allowed: Bool) -> Placed:
    """Put the placeholders on nodes. first_pod : number of the first of them; allowed : bool[nodes of the snapshot].

    Raises MoveLogFullError.
    """
    state = simulation.state
    every = np.concatenate([allowed, np.ones(len(state.node_state) - len(allowed), np.bool_)])
    every &= state.node_state == OPEN
    pods = np.arange(first_pod, first_pod + len(wanted.before), dtype=np.int64)
    hint = _hints(simulation, wanted, pods, every)
    tried = np.zeros(len(wanted.sets), np.int64)
    order = _order(simulation, wanted, hint, every)
    settle(state, wanted.bounds, pods, hint, order, every, tried)
    check_log(state)
    node = state.pod_node[pods].astype(np.int32)
    was_there = (wanted.before >= 0) | (wanted.before == GONE)
    return Placed(np.where(node == NOWHERE, NONE, node).astype(np.int32), was_there & (node != wanted.before), tried)


def _hints(simulation: Simulation, wanted: Roster, pods: Int64, allowed: Bool) -> Int32:
    """Return the node of the last loop of each placeholder that may stay there, else NONE. int32[M]."""
    resources = simulation.state.resources
    rows = np.flatnonzero((wanted.before >= 0) & np.append(allowed, False)[wanted.before])
    rows = rows[np.argsort(wanted.before[rows], kind="stable")]
    nodes, first = np.unique(wanted.before[rows], return_index=True)
    kept = np.zeros(len(rows), np.bool_)
    choose_kept(
        resources.free,
        resources.request,
        simulation.state.pod_class[pods[rows]],
        np.append(first, len(rows)).astype(np.int64),
        nodes.astype(np.int32),
        np.zeros((4, RUNS + 1), np.int64),
        kept,
    )
    hint = np.full(len(wanted.before), NONE, np.int32)
    hint[rows[kept]] = wanted.before[rows[kept]]
    return hint


def _order(simulation: Simulation, wanted: Roster, hint: Int32, allowed: Bool) -> Int32:
    """Return the nodes to search, int32: the fullest first, so that emptier ones can go; those to come last.

    Nodes that have less of something than the smallest of the placeholders needs are left out. None are returned where
    no placeholder has to be placed.
    """
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(hint == NONE)])
    lacking = np.diff(upto[wanted.bounds]).tolist()
    searching = [one for one, count in zip(wanted.sets, lacking, strict=True) if count]
    # A hint can fail where affinity or spread matter; then no other node has been asked for.
    local = simulation.state.local_class
    searching = searching or [one for one in wanted.sets if not local.all()]
    if not searching:
        return np.zeros(0, np.int32)
    free, real = simulation.state.resources.free, simulation.node_count
    least = {name: min(one.size.get(name, 0) for one in searching) for name in simulation.resources[:2]}
    enough = allowed.copy()
    for column, name in enumerate(simulation.resources[:2]):
        enough &= free[:, column] >= least[name]
    allocatable = simulation.snapshot.nodes.allocatable[:, [CPU, MEMORY]]
    share = (free[:real, :2] / np.maximum(allocatable, 1)).min(axis=1, initial=np.inf)
    nodes = np.flatnonzero(enough[:real])
    nodes = nodes[np.argsort(share[nodes], kind="stable")]
    return np.concatenate([nodes, real + np.flatnonzero(enough[real:])]).astype(np.int32)


def memory_of(wanted: Roster, placed: Placed, real: int) -> Mapping[str, SetMemory]:
    """Return what the next loop is told, sets by name. real : nodes of the snapshot; others have no lasting name."""
    node = np.where(placed.node < real, placed.node, NONE).astype(np.int32)
    found = {
        one.name: SetMemory(wanted.number[where], node[where], one.size)
        for one, where in zip(wanted.sets, wanted.of_sets(), strict=True)
    }
    return dict(sorted(found.items()))
