"""PRICE: the cost of the new nodes per worth of their pods, times how far a node is from the preferred one.

The preferred node has 1, 2, 4, 8, 16 or 32 cores in clusters of up to 2, 6, 20, 60, 200 and more nodes. The distance of
another node, the ratio of their cores, counts less the more nodes are added. GPU nodes always count as far from it. The
worth of a pod is defined by the cloud provider in upstream, by prices of a core and of memory. Here the price of a core
is the lowest at which any node group sells one, with memory at the usual ratio; half a core and 500 MiB are added on
both sides, as upstream does, to keep the ratio finite for pods without requests. An option of unknown price is
excluded. Source: Cluster Autoscaler, expander/price.
"""

from itertools import accumulate, repeat
from operator import mul
from typing import Final

import numpy as np

from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, GroupFacts, Options
from trimtab.planner.snapshot.columns import Int64

GIB: Final = float(1 << 30)
GIB_PER_CORE_PRICE: Final = 0.134
"""Price of 1 GiB relative to that of a core: the ratio of Google's list prices, which upstream's price model uses."""
STABILIZING_CORES: Final = 0.5
STABILIZING_GIB: Final = 500 / 1024
GPU_UNFITNESS: Final = 1000.0
_PREFERRED: Final = ((2, 1000.0), (6, 2000.0), (20, 4000.0), (60, 8000.0), (200, 16000.0))
"""Largest number of nodes of a cluster, and cpu of its preferred node in milli-cores."""
_PREFERRED_IN_LARGER: Final = 32000.0
_E_TO_2_15THS: Final = 1.1426308117957227
# 1 - tanh((n - 1) / 15) is 2 / (e^(2 (n - 1) / 15) + 1). Computed by products, because library functions differ in the
# last bit between machines. After the last entry, nothing of the unfitness is left.
_COUNTING: Final = np.array([2.0 / (one + 1.0) for one in accumulate(repeat(_E_TO_2_15THS, 300), mul, initial=1.0)])


def score(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """Return the score of each option, at most 0; NaN = of unknown price. float64[O]."""
    del state
    groups = context.groups
    unfitness = context.by_group("unfitness", lambda: _unfitness(groups, context.node_count))[options.group]
    counts = _COUNTING[np.minimum(options.node_count - 1, len(_COUNTING) - 1)]
    suppressed = np.where(groups.is_gpu[options.group], GPU_UNFITNESS, (unfitness - 1.0) * counts + 1.0)
    found: Float64 = -(suppressed * cost(context, options))
    return found


def cost(context: ExpanderContext, options: Options) -> Float64:
    """Return the cost of each option per worth of its pods, whatever the preferred node; NaN = unknown. float64[O]."""
    groups = context.groups
    core = _price_of_core(groups)
    stabilizing = core * (STABILIZING_CORES + STABILIZING_GIB * GIB_PER_CORE_PRICE)
    nodes = groups.price_per_hour[options.group] * options.node_count
    pods = core * _cores(options.cpu_milli, options.memory_bytes)
    # Without any price, no option is more expensive than another.
    ratio = (nodes + stabilizing) / (pods + stabilizing) if core > 0 else np.where(np.isnan(nodes), np.nan, 1.0)
    found: Float64 = ratio
    return found


def preferred_cpu_milli(node_count: int) -> float:
    """Return the cpu of the preferred node for a cluster of the given number of nodes."""
    return next((cpu_milli for most, cpu_milli in _PREFERRED if node_count <= most), _PREFERRED_IN_LARGER)


def _unfitness(groups: GroupFacts, node_count: int) -> Float64:
    preferred = preferred_cpu_milli(node_count)
    cpu = groups.cpu_milli.astype(np.float64)
    larger = np.full(len(cpu), np.inf)
    np.divide(preferred, cpu, out=larger, where=cpu > 0)
    unfitness: Float64 = np.maximum(larger, cpu / preferred)
    return unfitness


def _cores(cpu_milli: Int64, memory_bytes: Int64) -> Float64:
    """Return cpu and memory as a number of cores of equal cost."""
    cores: Float64 = cpu_milli / 1000.0 + memory_bytes / GIB * GIB_PER_CORE_PRICE
    return cores


def _price_of_core(groups: GroupFacts) -> float:
    """Return the lowest price of a core for one hour; 0 if no node has a price."""
    cores = _cores(groups.cpu_milli, groups.memory_bytes)
    sold = (groups.price_per_hour > 0) & (cores > 0)
    return float((groups.price_per_hour[sold] / cores[sold]).min(initial=np.inf)) if sold.any() else 0.0
