"""A plan of replacement as the answer of the decision, and why each node with price stays: the cheapest condition to
lift, in money. Pure.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trimtab.places import node_name, places_of
from trimtab.planner.drainability.limits import admitted
from trimtab.planner.facts.nodes import total
from trimtab.planner.model.tuning import LIMIT_CHECKED_NODES, TOLERANCE
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.replacement.cluster_bound import ClusterBound
from trimtab.planner.replacement.judge import LIMIT_OF, Wave, groups_that_take, limits_of_wave
from trimtab.planner.replacement.search import Option, SearchOutcome
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, UInt8
from trimtab.reason_texts import LIMIT_SENTENCES, NODE_SENTENCES, POD_SENTENCES
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import BlockingPodReason, NodeGroupReason, ReplacementLimit, UnremovableReason


def most_saved_by_node(context: ReplacementContext, bound: ClusterBound) -> Float64:
    """Return what replacing each node alone would save for one hour at most. float64[N], 0 without price."""
    saving = np.where(np.isnan(context.price), 0.0, context.price - np.nan_to_num(bound.node_value))
    return np.maximum(saving, 0.0)


def reasons_to_stay(context: ReplacementContext, saving: Float64, outcome: SearchOutcome) -> UInt8:
    """Return why each node is not in the plan, `ReplacementLimit.Code`. uint8[N]; of nodes in it, anything. saving :
    float64[N], see `most_saved_by_node`."""
    limit = context.verdicts.limit.copy()
    free = limit == 0
    worthless = free & (saving <= TOLERANCE * np.maximum(np.nan_to_num(context.price), 1.0))
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
    nodes = nodes[np.argsort(-saving[nodes], kind="stable")][:LIMIT_CHECKED_NODES]
    limits = limits_of_wave(context, context.budgets_later, groups, groups, np.zeros(0, np.int32))
    for node in nodes.tolist():
        for reason in admitted(limits, np.array([node], np.int32), 1)[1].tolist():
            limit[node] = LIMIT_OF[reason]


def kept_nodes(
    context: ReplacementContext, bound: ClusterBound, outcome: SearchOutcome, gone: Int32
) -> Iterator[tuple[int, pb.NotReplaced]]:
    """Yield the nodes with price that stay, and why. gone : int32 nodes of the chosen plan."""
    snapshot, verdicts = context.request.snapshot, context.verdicts
    saving = most_saved_by_node(context, bound)
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
    for node, code, unremovable, pod, reason, bound_saving in rows:
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
                saving_per_hour=bound_saving,
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


MOST_ALTERNATIVES: Final = 10
_MOST_NS: Final = 10**18


def most_saved(context: ReplacementContext, bound: ClusterBound, saving: float) -> float | None:
    """Return what no plan exceeds, None = not computed. saving : of the chosen plan, for one hour."""
    if not bound.per_hour:
        return None
    return max(total(context.price[context.there]) - bound.per_hour, saving)


def option_of(option: Option, is_chosen: bool) -> pb.ReplacementOption:
    """Return one plan of the frontier."""
    value = option.value
    message = pb.ReplacementOption(
        saving_per_hour=value.saving,
        leaving_node_count=len(value.leaving),
        new_node_count=value.new_count,
        evicted_pod_count=value.evicted,
        eviction_cost=value.cost,
        wave_count=option.wave_count,
        chosen=is_chosen,
        stopped_by=option.stopped_by,  # type: ignore[arg-type]
        disturbed_gang_count=option.gang_count,
    )
    if option.score is not None:
        message.balanced_score = option.score
    if option.payback_ns < _MOST_NS:
        message.payback_time.FromNanoseconds(int(option.payback_ns))
    return message


def waves_of(context: ReplacementContext, waves: Sequence[Wave]) -> Iterator[pb.ReplacementWave]:
    """Yield the waves of the chosen plan."""
    names = dict[int, str]()
    numbers = [0] * len(context.request.snapshot.groups)
    amounts = fresh_amounts(context.request.round.simulation, context.request.growth)
    for wave in waves:
        for row, group in zip(wave.new_nodes.tolist(), wave.trial.group_of, strict=True):
            names[row] = node_name(context.request.snapshot.groups[group].id, numbers[group])
            numbers[group] += 1
        yield _wave(context, wave, names, amounts)


def _wave(context: ReplacementContext, wave: Wave, names: dict[int, str], amounts: Int64) -> pb.ReplacementWave:
    value, snapshot = wave.value, context.request.snapshot
    node_names = snapshot.nodes.name
    new = [
        _new_node(context, wave, int(row), group, names[int(row)], amounts)
        for row, group in zip(wave.new_nodes, wave.trial.group_of, strict=True)
    ]
    home = {int(pod): int(node) for pod, node in zip(wave.trial.pods, wave.node, strict=True)}
    leaving = [int(node) for node in wave.trial.leaving]
    return pb.ReplacementWave(
        new_nodes=sorted(new, key=lambda new_node: new_node.name),
        leaving=[_leaving(context, node) for node in leaving],
        places=places_of(
            [
                (snapshot.pod_key(pod), node_names[node], names.get(home[pod]) or node_names[home[pod]])
                for node in leaving
                for pod in _evicted(context, node).tolist()
            ]
        ),
        saving_per_hour=value.saving,
        evicted_pod_count=value.evicted,
        eviction_cost=value.cost,
    )


def _new_node(
    context: ReplacementContext, wave: Wave, row: int, group: int, name: str, amounts: Int64
) -> pb.ReplacementNode:
    groups, price = context.request.snapshot.groups, float(context.group_price[group])
    limit = price + max(wave.value.saving, 0.0)
    others = groups_that_take(context, wave.trial.pods[wave.node == row], amounts)
    cheaper = [other for other in others if other != group and context.group_price[other] < limit]
    return pb.ReplacementNode(
        name=name,
        node_group=groups[group].id,
        price_per_hour=price,
        alternatives=[groups[other].id for other in cheaper[:MOST_ALTERNATIVES]],
    )


def _evicted(context: ReplacementContext, node: int) -> Int32:
    pods = context.pods
    first, last = int(pods.offsets[node]), int(pods.offsets[node + 1])
    return pods.pods[first:last][pods.evicted[first:last]]


def _leaving(context: ReplacementContext, node: int) -> pb.ReplacedNode:
    snapshot, moved = context.request.snapshot, _evicted(context, node)
    uid = snapshot.pods.uid
    uids = sorted(bytes(uid.data[uid.offsets[pod] : uid.offsets[pod + 1]]) for pod in moved.tolist())
    digest = hashlib.sha256(b"".join(text + b"\n" for text in uids)).hexdigest()[:16]
    return pb.ReplacedNode(
        node=snapshot.nodes.name[node],
        node_group=snapshot.groups[int(snapshot.nodes.group[node])].id,
        price_per_hour=float(context.price[node]),
        assumption=pb.NodeAssumption(pods_to_move_count=len(moved), pods_to_move_digest=digest),
        eviction_cost=float(context.pods.cost[node]),
    )


def excluded_groups(context: ReplacementContext) -> "dict[str, NodeGroupReason.Code.ValueType]":
    """Return the node groups that get no new nodes, and why."""
    groups = context.request.snapshot.groups
    codes: list[NodeGroupReason.Code.ValueType] = context.excluded.tolist()
    return {group.id: code for group, code in zip(groups, codes, strict=True) if code}
