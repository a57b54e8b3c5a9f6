"""Why each node with price stays: the cheapest condition to lift, in money. Pure."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from trimtab.planner.replacement.cluster_bound import ClusterBound
from trimtab.planner.replacement.search import SearchOutcome
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.wave_limits import WaveLimits
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, UInt8
from trimtab.reason_texts import LIMIT_SENTENCES, NODE_SENTENCES, POD_SENTENCES
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import BlockingPodReason, ReplacementLimit, UnremovableReason

MOST_CHECKED: Final = 256
"""Nodes, those with most to save first, of which it is asked which limit keeps each of them alone."""


def most_saved(context: ReplacementContext, bound: ClusterBound) -> Float64:
    """Return what replacing each node alone would save for one hour at most. float64[N], 0 without price."""
    saving = np.where(np.isnan(context.price), 0.0, context.price - np.nan_to_num(bound.node_value))
    return np.maximum(saving, 0.0)


def reasons_to_stay(context: ReplacementContext, saving: Float64, outcome: SearchOutcome) -> UInt8:
    """Return why each node is not in the plan, `ReplacementLimit.Code`. uint8[N]; of nodes in it, anything. saving :
    float64[N], see `most_saved`."""
    limit = context.verdicts.limit.copy()
    free = limit == 0
    worthless = free & (saving <= 1e-9 * np.maximum(np.nan_to_num(context.price), 1.0))
    limit[worthless] = ReplacementLimit.NOTHING_CHEAPER
    rest = free & ~worthless
    limit[rest & ~outcome.tried & outcome.incomplete] = ReplacementLimit.NOT_EVALUATED
    stopped = outcome.stopped_by or ReplacementLimit.NOTHING_CHEAPER
    limit[rest & (limit == 0)] = stopped
    _by_limits_alone(context, saving, rest, limit)
    return limit


def _by_limits_alone(context: ReplacementContext, saving: Float64, rest: Bool, limit: UInt8) -> None:
    """Write the limit that keeps a node by itself, in place. rest : bool[N] the nodes to look at."""
    groups = np.zeros(len(context.request.snapshot.groups), np.int64)
    nodes = np.flatnonzero(rest)
    nodes = nodes[np.argsort(-saving[nodes], kind="stable")][:MOST_CHECKED]
    limits = WaveLimits(context, context.budgets_later, groups, groups, np.zeros(0, np.int32))
    for node in nodes.tolist():
        limit[node] = limits.keeping_alone(node) or limit[node]


def kept_nodes(
    context: ReplacementContext, bound: ClusterBound, outcome: SearchOutcome, gone: Int32
) -> Iterator[tuple[int, pb.NotReplaced]]:
    """Yield the nodes with price that stay, and why. gone : int32 nodes of the chosen plan."""
    snapshot, verdicts = context.request.snapshot, context.verdicts
    saving = most_saved(context, bound)
    limit = reasons_to_stay(context, saving, outcome)
    stays = np.setdiff1d(np.flatnonzero(~np.isnan(context.price) & context.there), gone)
    rows = zip(
        stays.tolist(),
        limit[stays].tolist(),
        verdicts.unremovable[stays].tolist(),
        verdicts.blocking_pod[stays].tolist(),
        verdicts.blocking_reason[stays].tolist(),
        saving[stays].tolist(),
        strict=True,
    )
    for node, code, unremovable, pod, reason, most in rows:
        is_blocked = pod >= 0 and code in _BY_POD
        rule = unremovable if code in _BY_RULE else UnremovableReason.UNSPECIFIED
        blocking = reason if is_blocked else BlockingPodReason.UNSPECIFIED
        yield (
            node,
            pb.NotReplaced(
                reason=code,
                why=_why(code, rule, blocking),
                unremovable=rule,
                blocking_pod=snapshot.pod_key(pod) if is_blocked else "",
                blocking_reason=blocking,
                saving_per_hour=most,
            ),
        )


def _why(code: int, unremovable: int, blocking: int) -> str:
    if code == ReplacementLimit.NODE_NOT_REMOVABLE:
        if unremovable == UnremovableReason.RESERVED_FOR_PENDING_PODS:
            return "pods that this plan moves there, or that wait, need its room"
        if blocking:
            return f"a pod {POD_SENTENCES[blocking]}"
        if unremovable:
            return NODE_SENTENCES[unremovable]
    return LIMIT_SENTENCES[code]


_BY_RULE: Final = (
    ReplacementLimit.NODE_NOT_REMOVABLE,
    ReplacementLimit.NOT_ENOUGH_PDB,
    ReplacementLimit.MINIMUM_REACHED,
)
_BY_POD: Final = (*_BY_RULE[:2], ReplacementLimit.DO_NOT_DISRUPT)
