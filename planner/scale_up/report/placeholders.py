"""The placeholders that have no node after a plan, and why: for programs in the decision, for people in a note."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from trimtab.planner.new_nodes.sentences import why_pending
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.scale_up.reasons import Refusals
from trimtab.planner.scale_up.report.gangs import NO_GANGS, gangs_of_pods
from trimtab.planner.scale_up.report.sentences import growth_in_plan, reasons_of
from trimtab.v1 import plan_pb2 as pb

MOST_NOTES: Final = 3
"""Most reasons that get a note of their own."""
_NAMED: Final = 2


def add_waiting_placeholders(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add the placeholders without a node, by reason; the reason of the most placeholders comes first.

    O(placeholders + kinds · groups).
    """
    by_reason: dict[str, pb.Shortfall] = {}
    _add(by_reason, plan, plan.refusals, NO_GANGS)
    if plan.gangs is not None:
        _add(by_reason, plan, plan.gangs.refusals, gangs_of_pods(plan.gangs))
    for one in by_reason.values():
        one.pods.sort()
    decision.waiting_placeholders.extend(sorted(by_reason.values(), key=lambda one: (-len(one.pods), one.pods[0])))


def _add(by_reason: dict[str, pb.Shortfall], plan: ScaleUpPlan, refusals: Refusals, gangs: Mapping[int, str]) -> None:
    """Add placeholders that are refused, by reason. gangs : by placeholder, what its gang waits for."""
    rows = np.flatnonzero(~plan.are_pods(refusals.pods))
    pods, kinds = refusals.pods[rows], refusals.kind[rows].tolist()
    by_kind: dict[tuple[int, str], list[str]] = defaultdict(list)
    for name, pod, kind in zip(plan.names_of(pods), pods.tolist(), kinds, strict=True):
        by_kind[kind, gangs.get(pod, "")].append(name)
    growth = growth_in_plan(plan)
    for (kind, gang), names in sorted(by_kind.items()):
        reasons, failed = reasons_of(plan, refusals, kind)
        detail = gang or why_pending(reasons, failed, growth)
        row = pb.Shortfall(reasons=reasons, failed_predicates=failed, detail=detail)
        by_reason.setdefault(repr((reasons, failed, gang)), row).pods.extend(names)


def placeholder_notes(decision: pb.ScaleUpDecision) -> Iterator[str]:
    """Yield a note for each of the most frequent reasons, and one for all others."""
    waiting = decision.waiting_placeholders
    for one in waiting[:MOST_NOTES]:
        yield f"{_counted(one.pods)} no node after this plan: {one.detail}"
    if more := [name for one in waiting[MOST_NOTES:] for name in one.pods]:
        yield f"{_counted(sorted(more))} no node after this plan, for other reasons (waitingPlaceholders)"


def _counted(names: Sequence[str]) -> str:
    """Return "2 placeholders (a, b) have", with the first names only."""
    shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return f"{len(names)} placeholders ({shown}) have" if len(names) > 1 else f"placeholder {shown} has"
