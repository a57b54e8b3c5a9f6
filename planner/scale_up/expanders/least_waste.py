"""LEAST_WASTE: the share of cpu that stays idle on the new nodes plus that of memory, negated.

Capacity counts, so amounts reserved for the node itself and for DaemonSets are waste. A resource that the nodes lack is
not wasted. Source: Cluster Autoscaler, expander/waste.
"""

import numpy as np

from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options
from trimtab.planner.snapshot.columns import Int64


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option, at most 0. float64[O]."""
    del state
    groups = context.groups
    # As floats: the total of very many of the largest nodes exceeds int64. Floats are exact up to 2**53.
    node_count = options.node_count.astype(np.float64)
    cpu = _idle(groups.cpu_milli[options.group] * node_count, options.cpu_milli)
    memory = _idle(groups.memory_bytes[options.group] * node_count, options.memory_bytes)
    return -(cpu + memory)


def _idle(offered: Float64, requested: Int64) -> Float64:
    share = np.zeros(len(offered))
    np.divide(offered - requested, offered, out=share, where=offered > 0)
    return share
