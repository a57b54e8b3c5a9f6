"""Why a pod stays pending, in one sentence for people (`trimtab.planner.new_nodes.sentences`)."""

from trimtab.planner.new_nodes.sentences import GrowthInPlan
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.scale_up.reasons import Refusals
from trimtab.v1.reason_pb2 import NodeGroupReason, PredicateReason


def growth_in_plan(plan: ScaleUpPlan) -> GrowthInPlan:
    """Return which node groups grow, and which limits keep groups from growing further."""
    progress = plan.progress
    resources = {progress.groups[group].id: name for group, name in progress.limits.binding_resources().items()}
    return GrowthInPlan({progress.groups[group].id for group in set(progress.group_of)}, resources)


def reasons_of(
    plan: ScaleUpPlan, refusals: Refusals, kind: int
) -> tuple[dict[str, "NodeGroupReason.Code.ValueType"], dict[str, "PredicateReason.Code.ValueType"]]:
    """Return why pods of a kind are left: `NodeGroupReason.Code` by node group, and `PredicateReason.Code` by those of
    the groups whose new nodes refuse them.
    """
    ids = [group.id for group in plan.progress.groups]
    reasons = dict(zip(ids, refusals.reason[kind].tolist(), strict=True))
    return reasons, {key: code for key, code in zip(ids, refusals.predicate[kind].tolist(), strict=True) if code}
