"""PRIORITY: the highest rank with a pattern that matches the group's id; minus infinity for a group without rank.

So a group without rank loses against all that have one, and among groups without rank the next expander decides.
Source: Cluster Autoscaler, expander/priority, which in addition never takes a group of a rank below -1.
"""

import numpy as np

from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option. float64[O]."""
    del state
    return context.by_group("rank", lambda: _ranks(context.groups.ids, context.settings))[options.group]


def _ranks(ids: tuple[str, ...], settings: ScaleUpSettings) -> Float64:
    return np.array([_rank(group, settings) for group in ids], np.float64)


def _rank(group: str, settings: ScaleUpSettings) -> float:
    """Return the rank of a group. Ranks are sorted, highest first."""
    for rank in settings.priority:
        if any(pattern.search(group) for pattern in rank.patterns):
            return float(rank.rank)
    return -np.inf
