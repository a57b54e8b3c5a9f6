"""One group among those that would help."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from planner.scale_up.estimate import CPU, MEMORY, Estimate
from planner.scale_up.growing import Growing


class Choice(NamedTuple):
    """options : what could be chosen; scores : by expander of each option; chosen : position among the options."""

    options: list[Estimate]
    scores: list[float]
    chosen: int


def choose(growing: Growing, options: Sequence[Estimate]) -> Choice:
    """Choose the option that wastes least. Not empty."""
    scores = [-_waste(growing, option) for option in options]
    return Choice(list(options), scores, int(np.argmax(scores)))


def _waste(growing: Growing, option: Estimate) -> float:
    state = growing.state
    used = state.resources.request[state.pod_class[option.placed]].sum(axis=0)
    free = state.resources.free[growing.within.growth.prototype[option.group]] * option.node_count
    return float(sum(1 - used[at] / max(free[at], 1) for at in (CPU, MEMORY)))
