"""Pod costs for clusters of Kubernetes objects: settings, one decision, and its result for each group."""

from collections.abc import Sequence
from typing import Any

from tests.builders.kubernetes import Json, snapshot_of
from trimtab.places import costs_of, ranks_of
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import PodCostGroupReason

ZONE = "topology.kubernetes.io/zone"
NUMBER = "example.com/number"
NOW_S = 1_800_000_000
S = pb.PodCostStrategy


def term(strategy: Any, **fields: Any) -> pb.PodCostTerm:
    """Build a term; other fields that the strategy needs are filled in."""
    needed = {S.BALANCE_DOMAINS: {"topology_key": ZONE}, S.IDLE: {"annotation": NUMBER}}
    needed[S.ACCUMULATED_WORK] = needed[S.IDLE]
    return pb.PodCostTerm(strategy=strategy, **needed.get(strategy, {}) | fields)


def target(*terms: pb.PodCostTerm, **fields: Any) -> pb.PodCostTarget:
    """Build a target."""
    return pb.PodCostTarget(strategies=terms, **fields)


def decide(
    objects: Sequence[Json], *targets: pb.PodCostTarget, scale_down: pb.ScaleDownSettings | None = None
) -> pb.PlanResponse:
    """Take the decision; with settings of scale-down, that decision too."""
    request = pb.PlanRequest(decisions=[pb.Decision.POD_COSTS])
    request.now.seconds = NOW_S
    request.settings.pod_costs.targets.extend(targets)
    if scale_down is not None:
        request.decisions.append(pb.Decision.SCALE_DOWN)
        request.settings.scale_down.CopyFrom(scale_down)
    keys = sorted({one.annotation for wanted in targets for one in wanted.strategies if one.annotation} | {NUMBER})
    return plan(canonicalize(snapshot_of(list(objects), numbers=keys)), request, None, Work())


def groups(answer: pb.PlanResponse) -> dict[str, pb.PodCostGroup]:
    """Return groups by owner."""
    return {group.owner: group for group in answer.pod_costs.groups}


def reasons(answer: pb.PlanResponse) -> dict[str, str]:
    """Return why groups are incomplete, by owner; "" = complete."""
    names = PodCostGroupReason.Code
    return {group.owner: "" if group.complete else names.Name(group.reason) for group in answer.pod_costs.groups}


def own_ranks(group: pb.PodCostGroup, share: int = 0) -> dict[str, float]:
    """Return a strategy's own ranks by pod name."""
    ranks = ranks_of(group.shares[share].own_ranks)
    return {pod.partition("/")[2]: rank for pod, rank in zip(group.pods, ranks, strict=True)}


def costs(group: pb.PodCostGroup) -> dict[str, int]:
    """Return costs by pod name."""
    return {pod.partition("/")[2]: cost for pod, cost in costs_of(group).items()}


def at(second: int) -> str:
    """A time of creation."""
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
