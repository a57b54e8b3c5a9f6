"""LEAST_NODES: how many nodes are new, negative. Source: Cluster Autoscaler, expander/leastnodes."""

import numpy as np

from planner.scale_up.options import Context, Float64, Options, Situation


def score(context: Context, situation: Situation, options: Options) -> Float64:
    """Return the score of each option. float64[O]."""
    del context, situation
    return -options.node_count.astype(np.float64)
