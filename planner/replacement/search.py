"""The search for a plan: its waves (`wave_search`), and which of the plans from careful to bold is taken: the waves of
a plan before any wave are a valid plan of their own, which saves less and moves less.

First, a set of nodes is searched as if all waves were one. If that is too large for one wave, it is the target: the
waves take their nodes, and as far as possible the new nodes, from it, so that limits on waves cost little. If that
saves much less than the target and there is work left, they are searched without it, too.

Then parts of later waves move into the earliest wave that has room for them. A part is the nodes of a wave that leave
and share new nodes, with these; none of its pods goes to a new node that comes later, and the limits of all waves from
there on hold. The moves are made again in their new order, so that the simulation decides whether every pod has its
place at all times; otherwise the waves stay as they were. Deterministic. Raises MoveLogFullError.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.drainability.limits import admits
from trimtab.planner.facts.gangs import gangs_of
from trimtab.planner.model.tuning import GOOD_ENOUGH, ORDER_CHECKS, TOLERANCE
from trimtab.planner.replacement.cluster_bound import ClusterBound
from trimtab.planner.replacement.judge import (
    NOTHING,
    Scale,
    Value,
    Wave,
    balanced_score,
    breaks_spot_rules,
    broken_limit,
    limits_of_wave,
    payback_ns,
    value_of,
    worth,
)
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.trial import NOT_OPEN, Target, Trial, target_of
from trimtab.planner.replacement.wave_search import ReplacementWaves
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ReplacementLimit


class _WavePart(NamedTuple):
    """Nodes that leave together. leaving : int32, ascending; new : (node of the simulation, group) of each new node;
    pods : int32[M]; node : int32[M] node of the simulation of each."""

    leaving: Int32
    new: tuple[tuple[int, int], ...]
    pods: Int32
    node: Int32


def move_parts_forward(search: ReplacementWaves) -> None:
    """Move parts of the adopted waves into earlier ones. The simulation has the moves of all waves afterwards."""
    before = list(search.waves)
    if len(before) < 2:
        return
    plan = _WavePlan(search, before)
    if not plan.improve():
        return
    start = before[0].start
    search.target = None
    search.undo(0, start)
    try:
        plan.adopt()
    except RuntimeError:
        search.undo(0, start)
        for wave in before:
            search.adopt_again(wave)


class _WavePlan:
    """The parts of each wave, in order."""

    def __init__(self, search: ReplacementWaves, waves: Sequence[Wave]) -> None:
        self._search, self._context = search, search.context
        self._home = np.repeat(np.arange(len(self._context.request.leaving)), np.diff(self._context.pods.offsets))
        order = np.argsort(self._context.pods.pods, kind="stable")
        self._pods, self._home = self._context.pods.pods[order], self._home[order]
        self._waves = [self._parts_of(wave) for wave in waves]
        self._waits = _may_not_be_first(search)
        self._checks = 0

    def improve(self) -> bool:
        """Move what can be moved; return whether anything was."""
        moved = False
        for number in range(1, len(self._waves)):
            for part in list(self._waves[number]):
                earliest = self._earliest(part)
                for earlier in range(earliest, number):
                    if self._move(part, number, earlier):
                        moved = True
                        break
        self._waves = [parts for parts in self._waves if parts]
        return moved

    def adopt(self) -> None:
        """Make the moves in the simulation. Raises RuntimeError if pods do not fit."""
        renamed: dict[int, int] = {}
        opened = 0
        for parts in self._waves:
            rows = [new_node for part in parts for new_node in part.new]
            spare = self._search.packer.growth.spare_nodes[opened : opened + len(rows)]
            place = {row: number for number, (row, _) in enumerate(rows)}
            renamed |= {row: int(new) for (row, _), new in zip(rows, spare, strict=True)}
            opened += len(rows)
            self._search.adopt_again(self._wave(parts, place, renamed, spare))

    def _wave(self, parts: Sequence[_WavePart], place: dict[int, int], renamed: dict[int, int], spare: Int64) -> Wave:
        """Return a wave. place : of its new nodes; renamed : what each new node of the plan so far is now."""
        pods = np.concatenate([part.pods for part in parts])
        was = np.concatenate([part.node for part in parts])
        order = np.argsort(self._search.rank[pods], kind="stable")
        pods, was = pods[order], was[order]
        count = len(self._search.packer.simulation.state.node_state)
        node = np.array(
            [count + place[row] if row in place else renamed.get(row, row) for row in was.tolist()], np.int32
        )
        leaving = np.sort(np.concatenate([part.leaving for part in parts]))
        groups = tuple(group for part in parts for _, group in part.new)
        trial = Trial(leaving, groups, pods, node, pods[:0], (NOT_OPEN,) * len(groups))
        at = np.array([renamed.get(row, row) for row in was.tolist()], np.int32)
        return Wave(trial, value_of(self._context, leaving, groups), at, spare.copy(), 0)

    def _parts_of(self, wave: Wave) -> list[_WavePart]:
        """Return the parts of a wave, those with more nodes first."""
        home = self._home[np.searchsorted(self._pods, wave.trial.pods)]
        rows = wave.new_nodes.tolist()
        group_of = dict(zip(rows, wave.trial.group_of, strict=True))
        label = {key: key for key in [*wave.trial.leaving.tolist(), *(-1 - row for row in rows)]}

        def root(key: int) -> int:
            while label[key] != key:
                label[key] = label[label[key]]
                key = label[key]
            return key

        for node, row in {(n, r) for n, r in zip(home.tolist(), wave.node.tolist(), strict=True) if r in group_of}:
            label[root(-1 - row)] = root(node)
        of_node = np.array([root(node) for node in wave.trial.leaving.tolist()], np.int64)
        of_pod = np.array([root(node) for node in home.tolist()], np.int64)
        parts = [
            _WavePart(
                wave.trial.leaving[of_node == number],
                tuple((row, group) for row, group in group_of.items() if root(-1 - row) == number),
                wave.trial.pods[of_pod == number],
                wave.node[of_pod == number],
            )
            for number in np.unique(of_node).tolist()
        ]
        return sorted(parts, key=lambda part: (-len(part.leaving), int(part.leaving[0])))

    def _earliest(self, part: _WavePart) -> int:
        """Return the first wave by which all nodes that a part's pods go to are there."""
        own, needed = {row for row, _ in part.new}, set(part.node.tolist())
        needed -= own
        first = 1 if self._waits[part.leaving].any() else 0
        for number, parts in enumerate(self._waves):
            if any(row in needed for other in parts for row, _ in other.new):
                first = max(first, number)
        return first

    def _move(self, part: _WavePart, number: int, earlier: int) -> bool:
        """Move a part of a wave to an earlier one if all limits hold; return whether they do."""
        settings = self._context.request.settings
        into = [*self._waves[earlier], part]
        if sum(len(other.leaving) for other in into) > settings.max_leaving_nodes:
            return False
        if sum(len(other.new) for other in into) > settings.max_surge_nodes or self._checks >= ORDER_CHECKS:
            return False
        self._checks += 1
        waves = list(self._waves)
        waves[earlier] = into
        waves[number] = [other for other in waves[number] if other is not part]
        if not self._holds(waves, earlier, number):
            return False
        self._waves = waves
        return True

    def _holds(self, waves: Sequence[Sequence[_WavePart]], first: int, last: int) -> bool:
        context = self._context
        groups, group = len(context.request.snapshot.groups), context.request.snapshot.nodes.group
        removed, added, gone = np.zeros(groups, np.int64), np.zeros(groups, np.int64), context.pods.pods[:0]
        for number, parts in enumerate(waves[: last + 1]):
            if not parts:
                continue
            leaving = np.sort(np.concatenate([group_row.leaving for group_row in parts]))
            new = tuple(group_row for part in parts for _, group_row in part.new)
            counts = np.bincount(np.array(new, np.int64), minlength=groups).astype(np.int64)
            if number >= first:
                budgets = context.budgets_later if number else context.budgets_now
                limits = limits_of_wave(context, budgets, removed, added, gone)
                value = value_of(context, leaving, new)
                if not (admits(limits, leaving) and context.limits.after(added, removed).admit(counts)):
                    return False
                if broken_limit(context, value) or breaks_spot_rules(self._search.spots, leaving, new):
                    return False
            added += counts
            np.add.at(removed, group[leaving], 1)
            gone = np.concatenate([gone, leaving])
        return True


def _may_not_be_first(search: ReplacementWaves) -> Bool:
    """Return the nodes that may not be in the first wave: those to which scale-down moves pods, unless there is one
    in it, and those that have not been planned for `stable_time`. bool[N]."""
    context: ReplacementContext = search.context
    stable_ns, since = context.request.settings.stable_time_ns, context.earlier.planned_ns
    is_new = (since == 0) | (context.request.now_ns - since < stable_ns)
    waits: Bool = is_new & (stable_ns > 0)
    is_after = bool(context.takes_pods[search.waves[0].trial.leaving].any())
    return waits if is_after else waits | context.takes_pods


class SearchOutcome(NamedTuple):
    """waves : of the plan; stopped_by : `ReplacementLimit.Code` of what stops it; incomplete : whether time or work
    ended it; tried : bool[N] nodes in any trial; trials : how many; limits_hit : limits that kept nodes out."""

    waves: tuple[Wave, ...]
    stopped_by: int
    incomplete: bool
    tried: Bool
    trials: int
    limits_hit: frozenset[int]


class ReplacementSearch:
    """The search of one request. The simulation has the moves of all waves afterwards."""

    def __init__(self, context: ReplacementContext, bound: ClusterBound) -> None:
        self._search, self._whole_saving = ReplacementWaves(context, bound), 0.0

    def run(self) -> SearchOutcome:
        """Find the waves."""
        best: tuple[Wave, ...] | None = None
        stopped_by, target = 0, self._aim() if self._search.context.request.settings.max_waves > 1 else None
        start, first = current_mark(self._search.packer.simulation.state), len(self._search.waves)
        bound_saving = self._whole_saving
        for followed in (target, None) if target is not None else (None,):
            self._search.target = followed
            self._search.is_after_scale_down = False
            code = self._follow()
            waves = tuple(self._search.waves[first:])
            if best is None or self._sum(waves) > self._sum(best) * (1 + TOLERANCE):
                best, stopped_by = waves, code
            if self._sum(best) >= GOOD_ENOUGH * bound_saving or not self._search.may_begin():
                break
            self._search.undo(first, start)
        assert best is not None, "there is at least one try"
        if [id(wave) for wave in self._search.waves[first:]] != [id(wave) for wave in best]:
            self._search.undo(first, start)
            for wave in best:
                self._search.adopt_again(wave)
        move_parts_forward(self._search)
        return SearchOutcome(
            tuple(self._search.waves),
            stopped_by,
            self._search.is_out,
            self._search.tried,
            self._search.trials,
            frozenset(self._search.hit),
        )

    def _sum(self, waves: tuple[Wave, ...]) -> float:
        return sum(worth(self._search.context, wave.value) for wave in waves)

    def _follow(self) -> int:
        """Find waves until none saves; return the `ReplacementLimit.Code` that stops the plan."""
        while len(self._search.waves) < self._search.context.request.settings.max_waves:
            wave = self._search.find()
            if wave is not None:
                self._search.adopt(wave)
            elif self._search.may_wait():
                self._search.is_after_scale_down = True
            elif self._search.target is not None:
                self._search.target = None
            else:
                return self._search.broken
        return ReplacementLimit.SURGE_LIMIT

    def _aim(self) -> Target | None:
        """Search as if all waves were one. If the result is small enough, it is the first wave; else return it."""
        scale, most_waves = self._search.one_wave, self._search.context.request.settings.max_waves
        self._search.scale = Scale(scale.most_leaving * most_waves, scale.most_new * most_waves, most_waves)
        whole = self._search.find()
        self._search.scale = self._search.one_wave
        if whole is None:
            return None
        leaving, new = whole.trial.leaving, whole.trial.group_of
        if self._search.is_one_wave(whole):
            self._search.adopt(whole)
            return None
        self._whole_saving = worth(self._search.context, whole.value)
        goes = np.zeros(len(self._search.fixed), bool)
        goes[leaving] = True
        state, trial = self._search.packer.simulation.state, whole.trial
        places = (state.pod_class[trial.pods], trial.node)
        return target_of(goes, new, *places, len(state.node_state), self._search.bound.pod_value)


Choice = pb.ReplacementChoice


class Option(NamedTuple):
    """The first waves of the plan. wave_count : how many; value : of all of them; stopped_by : `ReplacementLimit.Code`;
    is_valid : whether it keeps all limits; score : Balanced score, None = nothing is evicted; payback_ns : nanoseconds;
    gang_count : running gangs of which pods are evicted.
    """

    wave_count: int
    value: Value
    stopped_by: int
    is_valid: bool
    score: float | None
    payback_ns: float
    gang_count: int


def options_of(context: ReplacementContext, outcome: SearchOutcome) -> tuple[Option, ...]:
    """Return the plan's first wave, its first two, and so on."""
    options: list[Option] = []
    value, least = NOTHING, context.request.settings.min_saving_per_hour
    snapshot = context.request.snapshot
    gangs = [snapshot.pods.node[gang.bound] for gang in gangs_of(snapshot, context.request.cache)]
    for number, wave in enumerate(outcome.waves, start=1):
        value = value.joined(wave.value)
        broken = broken_limit(context, value)
        if not broken and value.saving < least:
            broken = ReplacementLimit.SAVING_TOO_SMALL
        stopped_by = broken or (outcome.stopped_by if number == len(outcome.waves) else 0)
        score, payback = balanced_score(context, value), payback_ns(context, value)
        gang_count = sum(bool(np.isin(nodes, value.leaving).any()) for nodes in gangs)
        options.append(Option(number, value, stopped_by, not broken, score, payback, gang_count))
    return tuple(options)


def chosen_option(context: ReplacementContext, options: tuple[Option, ...]) -> Option | None:
    """Return the option that the settings choose, None if none keeps all limits."""
    valid = [option for option in options if option.is_valid]
    if not valid:
        return None
    choice = context.request.settings.choice
    if choice == Choice.CAREFUL:
        return valid[0]
    if choice == Choice.MOST_SAVED_PER_EVICTION:
        return max(valid, key=lambda option: (option.value.saving / max(option.value.evicted, 1), -option.wave_count))
    return max(valid, key=lambda option: (worth(context, option.value), -option.wave_count))
