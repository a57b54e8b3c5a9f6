"""A plan of replacement as the answer of the decision. Pure."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from trimtab.places import node_name, places_of
from trimtab.planner.facts.nodes import total
from trimtab.planner.placement.group_bounds import fresh_amounts
from trimtab.planner.replacement.cluster_bound import ClusterBound
from trimtab.planner.replacement.frontier import Option
from trimtab.planner.replacement.spot import groups_that_take
from trimtab.planner.replacement.survey import ReplacementContext
from trimtab.planner.replacement.wave import Wave
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason

MOST_ALTERNATIVES: Final = 10
_MOST_NS: Final = 10**18


def most_saved(context: ReplacementContext, bound: ClusterBound, saving: float) -> float | None:
    """Return what no plan exceeds, None = not computed. saving : of the chosen plan, for one hour."""
    if not bound.per_hour:
        return None
    return max(total(context.price[context.there]) - bound.per_hour, saving)


def option_of(one: Option, is_chosen: bool) -> pb.ReplacementOption:
    """Return one plan of the frontier."""
    value = one.value
    found = pb.ReplacementOption(
        saving_per_hour=value.saving,
        leaving_node_count=len(value.leaving),
        new_node_count=value.new_count,
        evicted_pod_count=value.evicted,
        eviction_cost=value.cost,
        wave_count=one.wave_count,
        chosen=is_chosen,
        stopped_by=one.stopped_by,  # type: ignore[arg-type]
        disturbed_gang_count=one.gang_count,
    )
    if one.score is not None:
        found.balanced_score = one.score
    if one.payback_ns < _MOST_NS:
        found.payback_time.FromNanoseconds(int(one.payback_ns))
    return found


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
    value = wave.value
    new = [
        _new_node(context, wave, int(row), group, names[int(row)], amounts)
        for row, group in zip(wave.new_nodes, wave.trial.group_of, strict=True)
    ]
    home = {int(pod): int(node) for pod, node in zip(wave.trial.pods, wave.node, strict=True)}
    leaving = [int(node) for node in wave.trial.leaving]
    return pb.ReplacementWave(
        new_nodes=sorted(new, key=lambda one: one.name),
        leaving=[_leaving(context, node) for node in leaving],
        places=places_of([row for node in leaving for row in _moves(context, node, home, names)]),
        saving_per_hour=value.saving,
        evicted_pod_count=value.evicted,
        eviction_cost=value.cost,
    )


def _new_node(
    context: ReplacementContext, wave: Wave, row: int, group: int, name: str, amounts: Int64
) -> pb.ReplacementNode:
    groups, price = context.request.snapshot.groups, float(context.group_price[group])
    most = price + max(wave.value.saving, 0.0)
    others = groups_that_take(context, wave.trial.pods[wave.node == row], amounts)
    cheaper = [other for other in others if other != group and context.group_price[other] < most]
    return pb.ReplacementNode(
        name=name,
        node_group=groups[group].id,
        price_per_hour=price,
        alternatives=[groups[other].id for other in cheaper[:MOST_ALTERNATIVES]],
    )


def _evicted(context: ReplacementContext, node: int) -> Int32:
    """Return the pods that are evicted from a node. int32."""
    pods = context.pods
    first, last = int(pods.offsets[node]), int(pods.offsets[node + 1])
    return pods.pods[first:last][pods.evicted[first:last]]


def _moves(
    context: ReplacementContext, node: int, home: dict[int, int], names: dict[int, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield where the pods of a node go."""
    snapshot = context.request.snapshot
    for pod in _evicted(context, node).tolist():
        to = names.get(home[pod]) or snapshot.nodes.name[home[pod]]
        yield snapshot.pod_key(pod), snapshot.nodes.name[node], to


def _leaving(context: ReplacementContext, node: int) -> pb.ReplacedNode:
    snapshot, moved = context.request.snapshot, _evicted(context, node)
    return pb.ReplacedNode(
        node=snapshot.nodes.name[node],
        node_group=snapshot.groups[int(snapshot.nodes.group[node])].id,
        price_per_hour=float(context.price[node]),
        assumption=pb.NodeAssumption(pods_to_move_count=len(moved), pods_to_move_digest=_digest(context, moved)),
        eviction_cost=float(context.pods.cost[node]),
    )


def _digest(context: ReplacementContext, pods: Int32) -> str:
    """Return the digest over the sorted uids of pods."""
    uid = context.request.snapshot.pods.uid
    uids = sorted(bytes(uid.data[uid.offsets[pod] : uid.offsets[pod + 1]]) for pod in pods.tolist())
    return hashlib.sha256(b"".join(one + b"\n" for one in uids)).hexdigest()[:16]


def excluded_groups(context: ReplacementContext) -> "dict[str, NodeGroupReason.Code.ValueType]":
    """Return the node groups that get no new nodes, and why."""
    groups = context.request.snapshot.groups
    codes: list[NodeGroupReason.Code.ValueType] = context.excluded.tolist()
    return {group.id: code for group, code in zip(groups, codes, strict=True) if code}
