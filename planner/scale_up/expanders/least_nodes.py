"""LEAST_NODES: the number of new nodes, negated. Source: Cluster Autoscaler, expander/leastnodes."""

import numpy as np

from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option. float64[O]."""
    del context, state
    return -options.node_count.astype(np.float64)
