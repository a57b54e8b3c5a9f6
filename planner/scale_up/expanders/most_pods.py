"""MOST_PODS: how many pods the option serves. Source: Cluster Autoscaler, expander/mostpods."""

import numpy as np

from planner.scale_up.options import Context, Float64, Options, Situation


def score(context: Context, situation: Situation, options: Options) -> Float64:
    """Return the score of each option. float64[O]."""
    del context, situation
    return options.pod_count.astype(np.float64)
