"""The expanders, besides PRICE: `score(context, state, options) -> float64[O]`, the larger, the better; NaN = excluded.

Scores do not depend on the order of options.
"""

import re
from hashlib import blake2b
from typing import Final

import numpy as np

from trimtab.planner.model.settings import ScaleUpSettings
from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options
from trimtab.planner.snapshot.columns import Int64

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,15}")


def balanced(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """BALANCED: by how many nodes the group is larger than the smallest of the options similar to it, negative.

    So the smallest groups of each kind of similar groups rate equal, and the next expander decides which kind grows.
    """
    kind = context.groups.similarity.kinds[options.group]
    size = state.size[options.group]
    smallest = np.full(int(kind.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    alike = kind >= 0
    np.minimum.at(smallest, kind[alike], size[alike])
    ahead = np.zeros(len(size), np.int64)
    ahead[alike] = size[alike] - smallest[kind[alike]]
    return -ahead.astype(np.float64)


def highest_priority(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """HIGHEST_PRIORITY: the number in a label of the group's template; 0 without the label, NaN if it is no number.

    A group whose label is not an integer, or has more than 15 digits, is excluded. Source: the Zalando fork of the
    Cluster Autoscaler, label `zalando.org/scaling-priority`.
    """
    del state
    texts = [labels.get(context.settings.priority_label, "0") for labels in context.groups.labels]
    by_group = context.by_group("priority", lambda: np.array([_number(text) for text in texts]))
    return by_group[options.group]


def _number(text: str) -> float:
    return float(text) if _INTEGER.fullmatch(text) else np.nan


def least_nodes(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """LEAST_NODES: the number of new nodes, negated. Source: Cluster Autoscaler, expander/leastnodes."""
    del context, state
    return -options.node_count.astype(np.float64)


def least_waste(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """LEAST_WASTE: the share of cpu that stays idle on the new nodes plus that of memory, negated.

    Capacity counts, so amounts reserved for the node itself and for DaemonSets are waste. A resource that the nodes
    lack is not wasted. Source: Cluster Autoscaler, expander/waste.
    """
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


def most_pods(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """MOST_PODS: how many pods the option serves. Source: Cluster Autoscaler, expander/mostpods."""
    del context, state
    return options.pod_count.astype(np.float64)


def priority(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """PRIORITY: the highest rank with a pattern that matches the group's id; minus infinity for a group without rank.

    So a group without rank loses against all that have one, and among groups without rank the next expander decides.
    Source: Cluster Autoscaler, expander/priority, which in addition never takes a group of a rank below -1.
    """
    del state
    by_group = context.by_group(
        "rank", lambda: np.array([_rank(group, context.settings) for group in context.groups.ids], np.float64)
    )
    return by_group[options.group]


def _rank(group: str, settings: ScaleUpSettings) -> float:
    """Return the rank of a group. Ranks are sorted, highest first."""
    for rank in settings.priority:
        if any(pattern.search(group) for pattern in rank.patterns):
            return float(rank.rank)
    return -np.inf


def seeded_random(context: ExpanderContext, state: ChoiceState, options: Options) -> Float64:
    """RANDOM: a number from 0 to 1, drawn from the seed of the request, the number of the choice and the group's id.

    So the same request has the same answer, and the order of options does not matter.
    """
    ids, salt = context.groups.ids, f"{context.seed}/{state.choice}/"
    return np.array([_draw(salt + ids[group]) for group in options.group.tolist()], np.float64)


def _draw(text: str) -> float:
    # 53 bits: the precision of a float.
    return (int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 11) / 2.0**53
