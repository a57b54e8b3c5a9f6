"""HIGHEST_PRIORITY: the number in a label of the group's template; 0 without the label.

A group whose label is not an integer, or has more than 15 digits, is excluded. Source: the Zalando fork of the Cluster
Autoscaler, label `zalando.org/scaling-priority`.
"""

import re
from typing import Final

import numpy as np

from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,15}")


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option; NaN = the label is not a number. float64[O]."""
    del state
    key = context.settings.priority_label
    labels = context.groups.labels
    return context.by_group("priority", lambda: np.array([_priority(one.get(key, "0")) for one in labels]))[
        options.group
    ]


def _priority(value: str) -> float:
    return float(value) if _INTEGER.fullmatch(value) else np.nan
