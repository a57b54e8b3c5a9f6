"""Keeps nodes whose replacement saves less than the moves of their pods are worth, in place of new nodes.

A search by sets of nodes plans all new nodes anew for each set, so that small differences are lost. Here, one node that
leaves stays in place of a new one, or of a larger one, and only the pods of these two are placed anew: those of the
node stay where they are now; the others go to the node that stays, to the places that its pods leave, to other nodes
of the trial, and the rest to the cheapest node that takes it. That is done if the moves are worth more than it costs;
then it is tried for each new node whether a cheaper one is enough. Deterministic; the simulation is unchanged. Raises
MoveLogFullError.
"""

from typing import Final

import numpy as np

from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.placement.kernels.search import evacuate
from trimtab.planner.placement.packing import place_on_new_nodes
from trimtab.planner.placement.waiting import place_anywhere, place_where, unplaced
from trimtab.planner.replacement.trial import Bench, Trial, as_trial, replay, simulation_nodes
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, current_mark
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64

MOST_NODES: Final = 64
"""Nodes that leave, and then new ones, that are looked at."""
MOST_TRIES: Final = 8
"""Exchanges that are tried for each of them, those first that are worth most."""
_NO_GROUP: Final = -1
_NONE_STAYS: Final = -1
_LEAST: Final = 1e-9


class FewerMoves:
    """Exchanges in one trial. price_of_cost : what a move is worth for one hour, for each unit of eviction cost."""

    def __init__(self, bench: Bench, trial: Trial, price_of_cost: float) -> None:
        self._bench, self._trial, self._price_of_cost = bench, trial, price_of_cost
        context, state = bench.context, bench.state
        self._groups = np.flatnonzero((bench.may_add > 0) & (bench.packer.growth.template_node != NO_TEMPLATE_NODE))
        self._groups = self._groups[np.argsort(context.group_price[self._groups], kind="stable")]
        self._fresh = fresh_amounts(bench.packer.simulation, bench.packer.growth)
        self._capacity, self._price = self._fresh[self._groups], context.group_price[self._groups]
        self._group_of = list(trial.group_of)
        self._stays = np.zeros(len(context.leaving), bool)
        self._home = np.full(len(state.pod_node), NO_NODE, np.int32)
        self._home[trial.pods] = state.pod_node[trial.pods]
        self._allowed = np.zeros(len(state.node_state), bool)

    def run(self) -> Trial | None:
        """Return the trial after all exchanges that are worth something, None if there are none."""
        bench, trial = self._bench, self._trial
        if not trial.group_of:
            return None
        start = current_mark(bench.state)
        evacuate(bench.state, trial.leaving[:0], trial.pods, False)
        place_on_new_nodes(bench.packer, trial.group_of, trial.pods[:0], trial.pods[:0], bench.first_spare)
        target = np.full(len(bench.state.pod_node), NO_NODE, np.int32)
        target[trial.pods] = simulation_nodes(bench, trial)
        self._allowed[target[trial.pods]] = True
        place_where(bench.state, self._allowed, trial.pods, target)
        done = not len(unplaced(bench.state, trial.pods)) and self._exchange()
        check_log(bench.state)
        found = self._found() if done else None
        revert(bench.state, start)
        if found is None or not len(found.leaving):
            return None
        stuck = replay(bench, found)
        revert(bench.state, start)
        return None if len(stuck) else found

    def _exchange(self) -> bool:
        """Make all exchanges that are worth something; return whether there are any."""
        done, this = False, self._bench.context.request.round
        for node in self._order().tolist():
            done |= this.in_time() and self._keep(node)
        for new in self._by_free_room():
            done |= this.in_time() and self._try(_NONE_STAYS, new)
        return done

    def _by_free_room(self) -> list[int]:
        """Return new nodes, those first of which the largest share is free."""
        is_open, group = self._open_nodes()
        fresh = self._fresh[group]
        free = self._bench.state.resources.free[self._opened()[is_open]] / np.maximum(fresh, 1)
        found: list[int] = is_open[np.argsort(-free.mean(axis=1), kind="stable")][:MOST_NODES].tolist()
        return found

    def _found(self) -> Trial:
        """Return the moves in the simulation as a trial."""
        trial = self._trial
        leaving = trial.leaving[~self._stays[trial.leaving]]
        pods = trial.pods[~self._stays[self._home[trial.pods]]]
        return as_trial(self._bench, leaving, self._group_of, pods, list(trial.of_target))

    def _order(self) -> Int32:
        """Return nodes that leave, those first whose pods cost most to move for what the nodes cost. int32."""
        context, leaving = self._bench.context, self._trial.leaving
        ratio = context.pods.cost[leaving] / np.maximum(context.price[leaving], 1e-12)
        found: Int32 = leaving[np.argsort(-ratio, kind="stable")][:MOST_NODES]
        return found

    def _keep(self, node: int) -> bool:
        """Let a node stay if that is worth something; return whether it does."""
        for new in self._candidates(node):
            if self._try(node, new):
                self._stays[node] = True
                return True
        return False

    def _candidates(self, node: int) -> list[int]:
        """Return new nodes in place of which a node could stay, those first with which that may be worth most."""
        context, state, opened = self._bench.context, self._bench.state, self._opened()
        is_open, group = self._open_nodes()
        # Of the new nodes of a group, the one with the fewest pods.
        pod_room = state.resources.free[opened[is_open]].sum(axis=1)
        first = np.lexsort((is_open, -pod_room, group))
        first = first[np.flatnonzero(np.diff(group[first], prepend=-1))]
        is_open, group = is_open[first], group[first]
        load = self._fresh[group] - state.resources.free[opened[is_open]]
        rest = np.maximum(load - state.resources.free[node], 0)
        fits = (rest[:, None, :] <= self._capacity[None]).all(axis=2)
        cheapest = self._price[np.argmax(fits, axis=1)]
        cost = np.where((rest == 0).all(axis=1), 0.0, np.where(fits.any(axis=1), cheapest, np.inf))
        worth = context.group_price[group] - cost + self._worth(node)
        best = np.argsort(-worth, kind="stable")
        best = best[worth[best] > _LEAST][:MOST_TRIES]
        found: list[int] = is_open[best].tolist()
        return found

    def _worth(self, node: int, instead_of: int = _NO_GROUP, new: int = _NO_GROUP) -> float:
        """Return what it is worth for one hour that a node stays, or none does, and that a new node of a group comes
        in place of one of another group."""
        context = self._bench.context
        came, comes = (float(context.group_price[one]) if one != _NO_GROUP else 0.0 for one in (instead_of, new))
        stays = 0.0
        if node != _NONE_STAYS:
            stays = self._price_of_cost * float(context.pods.cost[node]) - float(context.price[node])
        return stays + came - comes

    def _open_nodes(self) -> tuple[Int64, Int64]:
        """Return the positions of the new nodes that still come, and the group of each. int64."""
        group = np.array(self._group_of, np.int64)
        is_open = np.flatnonzero(group != _NO_GROUP)
        return is_open, group[is_open]

    def _opened(self) -> Int64:
        return self._bench.spare_nodes[: len(self._group_of)]

    def _try(self, node: int, new: int) -> bool:
        """Let a node stay in place of a new one, or of a larger one, if that is worth something and all pods find
        places; return whether it does. node : _NONE_STAYS = the new node alone is replaced."""
        bench, state = self._bench, self._bench.state
        mark, allowed = current_mark(state), self._allowed.copy()
        row = int(self._opened()[new])
        own = bench.context.pods.of(np.array([node] if node != _NONE_STAYS else [], np.int32))
        pods = self._trial.pods[state.pod_node[self._trial.pods] == row]
        own_at = np.unique(state.pod_node[own])
        evacuate(state, own[:0], np.concatenate([own, pods[~np.isin(pods, own)]]).astype(np.int32), False)
        self._allowed[row] = False
        order = [one for one in own_at.tolist() if one != row]
        if node != _NONE_STAYS:
            back = np.full(len(state.pod_node), NO_NODE, np.int32)
            back[own] = node
            self._allowed[node] = True
            order.insert(0, node)
            place_where(state, self._allowed, own, back)
        others = np.flatnonzero(self._allowed)
        others = others[~np.isin(others, order)]
        place_anywhere(state, np.concatenate([order, others]).astype(np.int32), self._allowed, pods)
        is_back = bool((state.pod_node[own] == node).all())
        group = self._place_rest(unplaced(state, pods)) if is_back else None
        if group is None or self._worth(node, self._group_of[new], group) <= _LEAST:
            revert(state, mark)
            self._allowed = allowed
            return False
        self._group_of[new] = _NO_GROUP
        if group != _NO_GROUP:
            self._group_of.append(group)
        return True

    def _place_rest(self, pods: Int32) -> int | None:
        """Open the cheapest new node for pods. Return its group, _NO_GROUP if there are no pods, None if none takes
        them."""
        bench, state, count = self._bench, self._bench.state, len(self._group_of)
        if not len(pods):
            return _NO_GROUP
        load = state.resources.request[state.pod_class[pods]].sum(axis=0)
        used = np.bincount([one for one in self._group_of if one != _NO_GROUP], minlength=len(self._fresh))
        fits = (load <= self._capacity).all(axis=1) & (used < bench.may_add)[self._groups]
        if not fits.any() or count >= len(bench.spare_nodes):
            return None
        group = int(self._groups[np.argmax(fits)])
        place_on_new_nodes(bench.packer, [group], pods[:0], pods[:0], bench.first_spare + count)
        new = int(bench.spare_nodes[count])
        self._allowed[new] = True
        place_anywhere(state, np.array([new], np.int32), self._allowed, pods)
        return None if len(unplaced(state, pods)) else group
