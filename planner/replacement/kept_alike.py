"""Keeps a node that leaves in place of a new node of its own group: that costs as much, and the pods of the node do not
move. A search by what sets of nodes save does not see this, as both save the same. Pure; the simulation is unchanged.

The other moved pods stay where the trial has placed them; those of the new node go to the node that stays, or to the
places that its own pods leave, or else all are placed anew on the nodes that the trial uses.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from trimtab.planner.placement.kernels.search import evacuate
from trimtab.planner.placement.packing import place_on_new_nodes
from trimtab.planner.placement.waiting import place_anywhere, place_where, unplaced
from trimtab.planner.replacement.trial import Bench, Trial, as_trial, simulation_nodes
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32

KEEPING_WORK: Final = 1 << 16
"""Work of all tries for a wave, as that of trials: 128 each, and one for each pod that moves. Some 10 ms."""
MOST_TRIED: Final = 32
"""Nodes that are tried, those first whose pods cost most to move."""


def pairs_alike(bench: Bench, trial: Trial) -> Iterator[tuple[int, int]]:
    """Yield (node that leaves, position of a new node of its group), the nodes first whose pods cost most to move; of
    several new nodes the last, which is usually the one with the fewest pods. Ties go to the earlier node.
    """
    context = bench.context
    group = context.request.snapshot.nodes.group[trial.leaving]
    last = {one: at for at, one in enumerate(trial.group_of)}
    order = np.argsort(-context.pods.cost[trial.leaving], kind="stable")
    for at in order[np.isin(group[order], list(last))][:MOST_TRIED].tolist():
        yield int(trial.leaving[at]), last[int(group[at])]


def with_node_kept(bench: Bench, trial: Trial, node: int, new: int) -> Trial | None:
    """Return a trial in which a node stays in place of a new one, None if not all pods find a place. Raises
    MoveLogFullError."""
    state, start = bench.state, current_mark(bench.state)
    leaving = trial.leaving[trial.leaving != node]
    moves = state.pod_node[trial.pods] != node
    pods, place = trial.pods[moves], trial.node[moves]
    group_of = trial.group_of[:new] + trial.group_of[new + 1 :]
    of_target = trial.of_target[:new] + trial.of_target[new + 1 :]
    node_count = len(state.node_state)
    target = np.full(len(state.pod_node), NO_NODE, np.int32)
    stays = place != node_count + new
    place = np.where(place > node_count + new, place - 1, place).astype(np.int32)
    shifted = trial._replace(leaving=leaving, pods=pods, node=np.where(stays, place, node).astype(np.int32))
    target[pods] = simulation_nodes(bench, shifted)
    for follows in (True, False):
        evacuate(state, leaving, pods, False)
        place_on_new_nodes(bench.packer, group_of, pods[:0], pods[:0], bench.first_spare)
        order, used = _used(bench, shifted, node, len(group_of))
        if follows:
            place_where(state, used, pods, target)
        place_anywhere(state, order, used, unplaced(state, pods))
        left = unplaced(state, pods)
        check_log(state)
        found = as_trial(bench, leaving, list(group_of), pods, list(of_target))
        revert(state, start)
        if not len(left):
            return found
    return None


def _used(bench: Bench, trial: Trial, node: int, new_count: int) -> tuple[Int32, Bool]:
    """Return the nodes on which a trial has placed pods, its new nodes and the node that stays, in the order in which
    they are tried, int32, and bool[N']."""
    opened = bench.spare_nodes[:new_count]
    present = trial.node[trial.node < len(bench.state.node_state)]
    order = np.concatenate([[node], opened, bench.order[np.isin(bench.order, present)]]).astype(np.int32)
    used = np.zeros(len(bench.state.node_state), bool)
    used[order] = True
    return order, used
