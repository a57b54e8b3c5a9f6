"""Scale-up as one of the decisions of a plan: its entry in the table."""

from collections.abc import Callable
from typing import Final

from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.settings import ScaleUpSettings, resolve_scale_up
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import Round
from trimtab.planner.scale_up.answer import conclude, not_tried, summarize
from trimtab.planner.scale_up.context import ScaleUpRequest
from trimtab.planner.scale_up.loop import best_plan
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.snapshot.columns import Bool, Snapshot
from trimtab.planner.snapshot.references import take_or
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import ScaleUpResult

LEAST: Final = 64
"""New nodes for which there is room even if nothing waits, so that few numbers occur."""


def decide(this: Round, settings: ScaleUpSettings, state: pb.ScaleUpState | None) -> Decided:
    """Take the scale-up decision."""
    request = ScaleUpRequest(this, settings, state)
    return conclude(best_plan(request)) if settings.enabled else not_tried(request)


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which a plan is made as a whole and group by group, and groups are balanced."""
    settings.scale_up.expanders.append(pb.Expander.CHEAPEST_PLAN)
    settings.scale_up.balance_similar_node_groups = True


def failed(detail: str) -> pb.ScaleUpDecision:
    """Return the result if the decision fails."""
    return pb.ScaleUpDecision(result=ScaleUpResult.SCALE_UP_ERROR, detail=detail)


def growth_need(snapshot: Snapshot, settings: ScaleUpSettings, now_ns: int) -> GrowthNeed | None:
    """Return the requirements on a round's simulation, in which groups grow; None if none may."""
    if not settings.enabled or not snapshot.groups:
        return None
    leaving = being_deleted(snapshot, now_ns)
    return growth_with(snapshot, settings, leaving, now_ns, _spare_nodes(snapshot, settings, leaving))


def _spare_nodes(snapshot: Snapshot, settings: ScaleUpSettings, leaving: Bool) -> Callable[[int], int]:
    """Return the function that returns how many new nodes may be open at a time, given the number of virtual pods, such
    as placeholders: no more than there are waiting and virtual pods, except for all-or-nothing groups.

    A power of two if limits allow it, which makes the simulation of an unchanged cluster reusable.
    """
    pods, groups = snapshot.pods, snapshot.groups
    on_leaving = take_or(leaving, pods.node, False)
    waits = ((pods.node < 0) | on_leaving) & ~pods.is_terminal()
    may_add = [max(group.max_size - group.target_size, 0) for group in groups]
    atomic_nodes = sum(most for most, group in zip(may_add, groups, strict=True) if group.zero_or_max)
    wanted, most = LEAST + int(waits.sum()) + atomic_nodes, min(settings.max_new_nodes, sum(may_add))
    return lambda virtual_pod_count: min(1 << (wanted + virtual_pod_count - 1).bit_length(), most) + SPARE


SCALE_UP: Final = Decision(pb.Decision.SCALE_UP, resolve_scale_up, decide, summarize, warm_up, failed, growth_need)
