"""Plans from careful to bold, and which of them is taken. The waves of a plan before any wave are a valid plan of their
own, which saves less and moves less. Pure.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import gangs_of
from trimtab.planner.replacement.judge import (
    NOTHING,
    Value,
    balanced_score,
    broken_limit,
    payback_ns,
    worth,
)
from trimtab.planner.replacement.search import SearchOutcome
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ReplacementLimit

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
    found: list[Option] = []
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
        found.append(Option(number, value, stopped_by, not broken, score, payback, gang_count))
    return tuple(found)


def chosen_option(context: ReplacementContext, options: tuple[Option, ...]) -> Option | None:
    """Return the option that the settings choose, None if none keeps all limits."""
    valid = [one for one in options if one.is_valid]
    if not valid:
        return None
    choice = context.request.settings.choice
    if choice == Choice.CAREFUL:
        return valid[0]
    if choice == Choice.MOST_SAVED_PER_EVICTION:
        return max(valid, key=lambda one: (one.value.saving / max(one.value.evicted, 1), -one.wave_count))
    return max(valid, key=lambda one: (worth(context, one.value), -one.wave_count))
