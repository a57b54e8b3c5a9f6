"""The search for one wave, the best set of nodes found that leave together, in any-time order.

Candidates are ordered by what a node costs above the worth of room for its pods. Sets of nodes are tried in the
simulation: the first nodes of several orders in several sizes, then the best one with a node more, a node less, or
another node. An adopted wave stays in the simulation, and the next one is searched there. A node that has received a
pod stays, and nodes that a target has leave get none. Nodes to which scale-down moves pods are not in the first wave,
which so can begin at once, unless nothing else saves. Deterministic: ties go to the earlier set. Raises
MoveLogFullError.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from trimtab.planner.drainability.kernels.limits import NodeLimits
from trimtab.planner.drainability.limits import admits, admitted
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import (
    CLEAR_SHARES,
    EARLY_PREFERENCE,
    EXCHANGE_POOL,
    FOLLOWED_NEW_NODES,
    KEEPING_WORK,
    LOST_ROOM,
    MOST_SUBSETS,
    REPAIRS,
    SET_SIZES,
    SPARE_SHARE,
    TRIAL_WORK,
    WAVE_WORK_SHARES,
)
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.placement.packing import packer
from trimtab.planner.placement.waiting import in_order, take_out, used_shares
from trimtab.planner.replacement.cluster_bound import ClusterBound, needed_groups
from trimtab.planner.replacement.judge import (
    LIMIT_OF,
    JudgedWave,
    Scale,
    SpotNodes,
    Value,
    Wave,
    breaks_spot_rules,
    broken_limit,
    is_better,
    limits_of_wave,
    value_of,
    worth,
)
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.trial import (
    Bench,
    Target,
    Trial,
    pairs_alike,
    replay,
    run_trial,
    simulation_nodes,
    with_node_kept,
)
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64
from trimtab.v1.reason_pb2 import ReplacementLimit


class CandidateSets:
    """The candidates of one wave. nodes : int32; surplus : float64[N] what each node costs above the worth of room for
    its pods; use : float64[N] share in use; limit : nodes that may leave together; whole : int32 each, the nodes of
    each order that may leave together."""

    def __init__(
        self,
        context: ReplacementContext,
        nodes: Int32,
        surplus: Float64,
        use: Float64,
        limits: NodeLimits,
        limit: int,
    ) -> None:
        self._context, self._nodes, self._surplus, self._use = context, nodes, surplus, use
        self._limits, self._most = limits, limit
        self._first = self._ordered()
        of_orders = [admitted(limits, order, limit) for order in self._first]
        self.whole = [nodes for nodes, _ in of_orders]
        self.hit = {int(LIMIT_OF[reason]) for _, refused in of_orders for reason in refused.tolist()}

    def seeds(self) -> Iterator[Int32]:
        """Yield sets of nodes to try, ascending each."""
        limit, nodes = self._most, self._nodes
        for chosen in self.whole[:1]:
            yield np.sort(chosen)
            excess = self._surplus[chosen] / self._context.price[chosen]
            yield from (np.sort(chosen[excess >= share]) for share in CLEAR_SHARES)
        for chosen in self.whole[1:]:
            yield np.sort(chosen)
        if len(nodes) <= MOST_SUBSETS:
            for bits in range(1, 1 << len(nodes)):
                some = nodes[[at for at in range(len(nodes)) if bits >> at & 1]]
                if len(some) <= limit and admits(self._limits, some):
                    yield some
            return
        for size in SET_SIZES:
            for chosen in self.whole:
                if size < len(chosen):
                    yield np.sort(chosen[:size])

    def pool(self, leaving: Int32) -> Int32:
        """Return other candidates to try, the most promising first. int32."""
        pool: list[int] = []
        there = set(leaving.tolist())
        for at in range(EXCHANGE_POOL):
            for order in self._first[:3]:
                node = int(order[at]) if at < len(order) else -1
                if node >= 0 and node not in there:
                    pool.append(node)
                    there.add(node)
        return np.array(pool[:EXCHANGE_POOL], np.int32)

    def _ordered(self) -> list[Int32]:
        nodes, context = self._nodes, self._context
        surplus, cost = self._surplus[nodes], context.pods.cost[nodes]
        per_cost = surplus / (1.0 + cost)
        by_surplus = nodes[np.lexsort((nodes, cost, -surplus))]
        by_cost = nodes[np.lexsort((nodes, -surplus, -per_cost))]
        by_use = nodes[np.lexsort((nodes, -surplus, self._use[nodes]))]
        group = context.request.snapshot.nodes.group
        orders = [by_surplus, by_cost, by_use]
        mean = [
            (-float(self._surplus[by_surplus[group[by_surplus] == row]].mean()), row) for row in np.unique(group[nodes])
        ]
        orders += [by_surplus[group[by_surplus] == row] for _, row in sorted(mean)[:8]]
        return orders


LEAST_TRIALS: Final = 1 + len(CLEAR_SHARES)
"""Trials of a wave, whatever the budget of work of the wave."""
MOST_DISRUPTIONS: Final = 1 << 32
"""Disruptions of a budget that count of each later wave, so that sums stay numbers of 64 bits."""


class ReplacementWaves:
    """The search for one wave after the other. waves : those adopted; target : what they follow; scale : how large a
    wave may be; is_after_scale_down : whether the first wave may begin after it."""

    def __init__(self, context: ReplacementContext, bound: ClusterBound) -> None:
        self.context, self.bound = context, bound
        request = context.request
        self.packer = packer(request.round.simulation, request.growth)
        self.spots = SpotNodes(context)
        groups, count = len(request.snapshot.groups), len(context.request.leaving)
        self._removed, self._added = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
        self._gone = np.zeros(0, np.int32)
        self.fixed = np.zeros(count, bool)
        self.waves: list[Wave] = []
        settings = request.settings
        self.one_wave = Scale(settings.max_leaving_nodes, settings.max_surge_nodes, 1)
        self.scale = self.one_wave
        self.target: Target | None = None
        self.is_after_scale_down = False
        self._work = request.settings.search.replacement_work
        self._wave_work = self._wave_trials = 0
        self.trials = 0
        self.tried = np.zeros(count, bool)
        self.hit = set[int]()
        self.broken = 0
        self.is_out = self.is_late = False
        self._labels = labels_by_group(context.templates)
        self._use = used_shares(request.round.simulation, np.arange(count))
        self._is_needed = needed_groups(context, self.packer)
        pods = in_order(request.round.simulation, context.pods.pods)
        self.rank = np.zeros(len(request.round.simulation.state.pod_node), np.int32)
        self.rank[pods] = np.arange(len(pods))
        # What a set of nodes saves more than another is worth its moves if these save a share of the mean.
        cost = total(context.pods.cost[context.candidates])
        self._least_saving_per_cost = request.settings.min_saving_share * max(bound.may_save, 0.0) / max(cost, 1.0)

    def may_begin(self) -> bool:
        """Return whether there is time and work left for another way."""
        self.is_late |= not self.context.request.round.in_time()
        self.is_out |= self.is_late
        return self._work > 0 and not self.is_late

    def undo(self, first: int, start: int) -> None:
        """Undo the waves from a number on."""
        revert(self.packer.simulation.state, start)
        waves = self.waves[:first]
        self.waves, self._gone = [], self._gone[:0]
        for array in (self._removed, self._added, self.fixed):
            array[:] = 0
        for wave in waves:
            self._count(wave)

    def _may_go_on(self) -> bool:
        self.context.request.limits.check()
        # However large the cluster is, a target is searched, and each wave tries to follow it once.
        least = LEAST_TRIALS if self.scale is not self.one_wave else int(self.target is not None)
        has_work = self._work > 0 or self._wave_trials < least
        self.is_late |= not self.context.request.round.in_time()
        may_try = has_work and not self.is_late
        self.is_out |= not may_try
        return may_try and (self._wave_work > 0 or self._wave_trials < LEAST_TRIALS)

    def find(self) -> Wave | None:
        """Return the best wave found, None if none saves."""
        self._start_wave()
        best: JudgedWave | None = None
        tried_sets = set[bytes]()
        for leaving in self._sets.seeds():
            if not self._may_go_on():
                break
            best = self._better(best, leaving, tried_sets)
        while best is not None and self._may_go_on():
            improved = self._improved(best, tried_sets)
            if improved is None:
                break
            best = improved
        self.hit |= self._sets.hit
        if best is None:
            return None
        if self.target is None:
            best = self._with_nodes_kept(best)
        node = simulation_nodes(self._bench, best.trial)
        new_nodes = self._bench.spare_nodes[: len(best.trial.group_of)].copy()
        return Wave(best.trial, best.value, node, new_nodes, current_mark(self._bench.state))

    def _with_nodes_kept(self, best: JudgedWave) -> JudgedWave:
        """Return a wave that saves as much, in which nodes stay where it has new ones of their own groups."""
        passed, work = set[int](), KEEPING_WORK
        while work > 0 and self.context.request.round.in_time():
            pairs = (pair for pair in pairs_alike(self._bench, best.trial) if pair[0] not in passed)
            node, new = next(pairs, (-1, -1))
            if node < 0:
                break
            passed.add(node)
            work -= TRIAL_WORK + len(best.trial.pods)
            trial = with_node_kept(self._bench, best.trial, node, new)
            value = value_of(self.context, trial.leaving, trial.group_of) if trial is not None else best.value
            if trial is None or not len(trial.leaving) or self._breaks_limit(trial, value):
                continue
            best = JudgedWave(trial, value, best.rank + self._least_saving_per_cost * (best.value.cost - value.cost))
        return best

    def _breaks_limit(self, trial: Trial, value: Value) -> int:
        """Return the limit of the settings that a wave breaks, `ReplacementLimit.Code`, 0 = none."""
        broken = broken_limit(self.context, value)
        return broken or breaks_spot_rules(self.spots, trial.leaving, trial.group_of)

    def _start_wave(self) -> None:
        context = self.context
        self._wave_trials = 0
        waves_left = context.request.settings.max_waves - len(self.waves)
        self._wave_work = min(self._work, WAVE_WORK_SHARES * self._work // waves_left)
        self._limits = self._limits_of_wave()
        price = context.price
        may_go = (context.verdicts.limit == 0) & (price > 0) & ~self.fixed
        may_go[self._gone] = False
        if self.target is not None:
            may_go &= self.target.leaving
        may_go_now = may_go & ~context.takes_pods if self._is_before_scale_down() else may_go
        self._candidates = np.flatnonzero(may_go_now).astype(np.int32)
        surplus = price - self.bound.node_value
        self._surplus = np.where(np.isnan(surplus), 0.0, surplus)
        self._bench = self._new_bench(may_go)
        self._sets = CandidateSets(
            context, self._candidates, self._surplus, self._use, self._limits, self.scale.most_leaving
        )
        self._allowed = self._room.copy()
        if self.target is not None:
            self._allowed[np.flatnonzero(self._is_candidate)] = False

    def _is_before_scale_down(self) -> bool:
        """Return whether scale-down's pods may still be on their nodes when the wave begins."""
        return not self.waves and self.scale.waves == 1 and not self.is_after_scale_down

    def may_wait(self) -> bool:
        """Return whether a first wave that begins after scale-down could have other nodes."""
        return self._is_before_scale_down() and bool(
            (self.context.takes_pods & (self.context.verdicts.limit == 0)).any()
        )

    def is_one_wave(self, wave: Wave) -> bool:
        """Return whether a set that was found for all waves keeps the limits of one that can begin at once."""
        leaving, new, scale = wave.trial.leaving, wave.trial.group_of, self.one_wave
        if self.context.takes_pods[leaving].any():
            return False
        if len(leaving) > scale.most_leaving or len(new) > scale.most_new:
            return False
        growth = self.context.limits.after(self._added, self._removed)
        return growth.admit(self._counts(new)) and admits(self._limits_of_wave(), leaving)

    def _counts(self, group_of: tuple[int, ...]) -> Int64:
        return np.bincount(np.array(group_of, np.int64), minlength=len(self._added)).astype(np.int64)

    def _limits_of_wave(self) -> NodeLimits:
        context = self.context
        first = context.budgets_later if self.waves else context.budgets_now
        disruptions = first + (self.scale.waves - 1) * np.minimum(context.budgets_later, MOST_DISRUPTIONS)
        return limits_of_wave(context, disruptions, self._removed, self._added, self._gone, self.scale.waves)

    def _new_bench(self, may_go: Bool) -> Bench:
        context, state = self.context, self.packer.simulation.state
        there = context.there & context.request.ready
        there[self._gone] = False
        stays = np.flatnonzero(there & ~may_go)
        self._room = np.zeros(len(state.node_state), bool)
        self._room[np.flatnonzero(there)] = True
        opened = np.concatenate([wave.new_nodes for wave in self.waves] or [np.zeros(0, np.int64)])
        self._room[opened] = True
        self._is_candidate = may_go
        # The fullest first, and nodes that may leave later last.
        used = self._use[stays]
        candidates = np.flatnonzero(may_go)
        candidates = candidates[np.argsort(self._surplus[candidates], kind="stable")]
        order = np.concatenate([opened, stays[np.argsort(-used, kind="stable")], candidates]).astype(np.int32)
        self._growth_left = context.limits.after(self._added, self._removed, self.scale.waves)
        may_add = np.minimum(self._growth_left.may_add, self.scale.most_new)
        return Bench(
            context,
            self.packer,
            self._labels,
            order,
            np.where(self._is_needed & context.usable, may_add, 0),
            sum(len(wave.trial.group_of) for wave in self.waves),
            self.scale.most_new,
            self.rank,
        )

    def _better(self, best: JudgedWave | None, leaving: Int32, tried_sets: set[bytes]) -> JudgedWave | None:
        """Try a set; return it if it is better than the best one. Nodes whose pods find no place are left out."""
        for _ in range(REPAIRS):
            if not len(leaving) or leaving.tobytes() in tried_sets or not self._may_go_on():
                return best
            tried_sets.add(leaving.tobytes())
            judged, stuck = self._try(leaving)
            if judged is not None:
                return judged if best is None or is_better(judged, best) else best
            if not len(stuck):
                return best
            leaving = leaving[~np.isin(leaving, stuck)]
        return best

    def _try(self, leaving: Int32) -> tuple[JudgedWave | None, Int32]:
        """Try a set of nodes. Return it if it is a valid wave, and else the nodes whose pods find no place. int32."""
        context = self.context
        self.trials += 1
        self._wave_trials += 1
        self.tried[leaving] = True
        follows = self.target is not None and len(self.target.group_of) <= FOLLOWED_NEW_NODES
        tries = [self._judged(leaving, self.target if follows else None)]
        if follows and tries[0][0] is None:
            tries.append(self._judged(leaving, None))
        spent = len(tries) * (TRIAL_WORK + int(context.pods.evictions[leaving].sum()))
        if any(judged is None or judged.trial.group_of for judged, _ in tries):
            spent += int(self._bench.may_add.astype(bool).sum())
        self._work -= spent
        self._wave_work -= spent
        return tries[-1]

    def _judged(self, leaving: Int32, target: Target | None) -> tuple[JudgedWave | None, Int32]:
        context = self.context
        trial = run_trial(self._bench, leaving, self._allowed, target)
        if len(trial.stuck):
            self.hit.add(ReplacementLimit.NODE_GROUP_LIMIT)
            if trial.too_many:
                order = leaving[np.argsort(self._surplus[leaving], kind="stable")]
                return None, order[: int(np.ceil(len(order) * min(trial.too_many + SPARE_SHARE, 1)))]
            return None, np.unique(self._bench.state.pod_node[trial.stuck]).astype(np.int32)
        if not self._growth_left.admit(self._counts(trial.group_of)):
            self.broken = ReplacementLimit.NODE_GROUP_LIMIT
            return None, leaving[:0]
        value = value_of(context, leaving, trial.group_of)
        limit = self._breaks_limit(trial, value)
        if limit:
            self.broken = limit if value.saving > 0 or not self.broken else self.broken
            return None, leaving[:0]
        rank = worth(context, value) - self._least_saving_per_cost * value.cost
        if target is not None:
            rank = self._promise(target, trial, rank)
        return JudgedWave(trial, value, rank), leaving[:0]

    def _promise(self, target: Target, trial: Trial, rank: float) -> float:
        """Return what a wave and those after it save together, if those follow the target as far as they can, with a
        preference for what is saved early. Pods that are not where the target has one of their class take room of
        others, which costs something."""
        context, state = self.context, self.packer.simulation.state
        node = simulation_nodes(self._bench, trial)
        opened = target.opened(trial.of_target, self._bench.spare_nodes[: len(trial.of_target)])
        pod_class = state.pod_class[trial.pods]
        in_place, elsewhere = opened.in_place(pod_class, node)
        moved = total(self.bound.pod_value[pod_class])
        rest = np.flatnonzero(target.leaving)
        rest = rest[~np.isin(rest, trial.leaving) & ~np.isin(rest, self._gone)]
        waves_left = context.request.settings.max_waves - len(self.waves) - 1
        share = min(1.0, waves_left * self.one_wave.most_leaving / max(len(rest), 1))
        later = total(context.price[rest]) - opened.unopened(context.group_price) + (1 - LOST_ROOM) * elsewhere
        lost = LOST_ROOM * max(moved - in_place - elsewhere, 0.0)
        return (1 + EARLY_PREFERENCE) * rank + share * later - lost

    def _improved(self, best: JudgedWave, tried_sets: set[bytes]) -> JudgedWave | None:
        """Return a better wave than the best one with a node less, a node more or another one; None = none is found."""
        before, leaving = best, best.trial.leaving
        limit = self.scale.most_leaving
        pool = self._sets.pool(leaving)
        order = leaving[np.argsort(self._surplus[leaving], kind="stable")]
        for node in order.tolist():
            best = self._better(best, leaving[leaving != node], tried_sets) or best
        for node in pool.tolist() if len(leaving) < limit else ():
            more = np.sort(np.append(leaving, np.int32(node)))
            if admits(self._limits, more):
                best = self._better(best, more, tried_sets) or best
        if best is before:
            for node in pool[: EXCHANGE_POOL // 3].tolist():
                for other in order[:4].tolist():
                    swapped = np.sort(np.append(leaving[leaving != other], np.int32(node)))
                    if admits(self._limits, swapped):
                        best = self._better(best, swapped, tried_sets) or best
        return best if best is not before else None

    def adopt(self, wave: Wave) -> None:
        """Leave a wave in the simulation."""
        state = self._bench.state
        stuck = replay(self._bench, wave.trial)
        if len(stuck):
            revert(state, wave.start)
            raise RuntimeError(f"{len(stuck)} pods of a wave do not fit where its trial has placed them")
        take_out(self.packer.simulation, wave.trial.leaving)
        self._count(wave)
        if self.target is not None:
            opened = self.target.opened(wave.trial.of_target, wave.new_nodes)
            self.target = opened.filled(state.pod_class[wave.trial.pods], wave.node)

    def adopt_again(self, wave: Wave) -> None:
        """Leave a wave in the simulation that was undone; the waves before it have to be there."""
        self._start_wave()
        self.adopt(wave._replace(start=current_mark(self.packer.simulation.state)))

    def _count(self, wave: Wave) -> None:
        np.add.at(self._added, np.array(wave.trial.group_of, np.int64), 1)
        np.add.at(self._removed, self.context.request.snapshot.nodes.group[wave.trial.leaving], 1)
        self._gone = np.concatenate([self._gone, wave.trial.leaving])
        received = wave.node[wave.node < len(self.fixed)]
        self.fixed[received] = True
        self.waves.append(wave)
