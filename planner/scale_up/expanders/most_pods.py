"""MOST_PODS: how many pods the option serves. Source: Cluster Autoscaler, expander/mostpods."""

import numpy as np

from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option. float64[O]."""
    del context, state
    return options.pod_count.astype(np.float64)
