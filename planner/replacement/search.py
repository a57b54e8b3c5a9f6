"""The search for a plan: its waves (`wave_search`).

First, a set of nodes is searched as if all waves were one. If that is too large for one wave, it is the target: the
waves take their nodes, and as far as possible the new nodes, from it, so that limits on waves cost little. They follow
it in several ways, as long as there is work left and none saves nearly as much as the target; the last way has none.
Deterministic. Raises MoveLogFullError.

Plans from careful to bold, and which of them is taken. The waves of a plan before any wave are a valid plan of their
own, which saves less and moves less. Pure.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import gangs_of
from trimtab.planner.model.tuning import GOOD_ENOUGH, TOLERANCE
from trimtab.planner.replacement.cluster_bound import ClusterBound
from trimtab.planner.replacement.earlier_parts import move_parts_forward
from trimtab.planner.replacement.judge import (
    GREEDY,
    NOTHING,
    Scale,
    Value,
    Wave,
    Way,
    balanced_score,
    broken_limit,
    payback_ns,
    worth,
)
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.target import Target, target_of
from trimtab.planner.replacement.wave_search import ReplacementWaves
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ReplacementLimit

WAYS: Final = (Way(0.1, 0.1), Way(1.0, 0.1), GREEDY)


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
        for way in WAYS if target is not None else (GREEDY,):
            self._search.target, self._search.way = target if way is not GREEDY else None, way
            self._search.is_after_scale_down = False
            code = self._follow()
            waves = tuple(self._search.waves[first:])
            if best is None or self._sum(waves) > self._sum(best) * (1 + TOLERANCE):
                best, stopped_by = waves, code
            if self._sum(best) >= GOOD_ENOUGH * bound_saving or not self._search.may_begin():
                break
            self._search.undo(first, start)
        assert best is not None, "there is at least one way"
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
