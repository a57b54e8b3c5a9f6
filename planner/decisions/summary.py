"""Nodes and money of a plan: now, after each decision, and after all of them. Adds up what the decisions say that they
change (`Decided.change`); decides nothing. Prices are those of `facts.shown_prices`.
"""

from collections.abc import Iterable

import numpy as np

from trimtab.planner.facts.nodes import total
from trimtab.planner.facts.shown_prices import ShownPrices
from trimtab.planner.facts.upcoming import unregistered
from trimtab.planner.round.decision import NodeChange
from trimtab.planner.snapshot.columns import Bool, Int64, Snapshot
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2 as pb

Changes = Iterable[tuple["pb.Decision.Code.ValueType", NodeChange]]


def write_summary(
    summary: pb.PlanSummary, snapshot: Snapshot, shown: ShownPrices, leaving: Bool, placed: int, changes: Changes
) -> None:
    """Write the summary. leaving : bool[N], being deleted; placed : number of pods on nodes; changes : of the
    decisions, in the order in which they were taken. O(N) for each.
    """
    there: Bool = ~leaving
    new: Int64 = np.zeros(len(snapshot.groups), np.int64)
    _write_figures(summary.now, shown, there, new, placed)
    for code, change in changes:
        gone = np.zeros(len(there), bool)
        gone[change.gone] = True
        gone &= there
        there = there & ~gone
        bought = np.array(change.new, np.int64)
        new = new + np.bincount(bought, minlength=len(new))
        placed += change.placed
        figures = summary.decisions.add(
            decision=code,
            removed_node_count=int(gone.sum()),
            added_node_count=len(bought),
            saved_per_hour=total(shown.node[gone]),
            bought_per_hour=total(shown.group[bought]),
            objective=change.objective,
            most_saved_per_hour=change.most_saved,
        )
        _write_figures(figures.after, shown, there, new, placed)
        summary.removed_node_count += figures.removed_node_count
        summary.added_node_count += figures.added_node_count
        summary.saved_per_hour += figures.saved_per_hour
        summary.bought_per_hour += figures.bought_per_hour
    _write_figures(summary.after, shown, there, new, placed)
    summary.saved_per_month = (summary.saved_per_hour - summary.bought_per_hour) * HOURS_A_MONTH
    most = _most_saved(summary)
    if most is not None:
        summary.most_saved_per_hour = most
    summary.leaving_node_count = int(leaving.sum())
    summary.coming_node_count = int(unregistered(snapshot).sum())
    summary.assumption = shown.assumption


def _write_figures(figures: pb.ClusterFigures, shown: ShownPrices, there: Bool, new: Int64, placed: int) -> None:
    """Write the numbers of a cluster. there : bool[N], its nodes of the snapshot; new : int64[G], its new nodes."""
    ours = shown.node[there]
    price = total(ours) + total(new * shown.group)
    unknown = int(np.isnan(ours).sum()) + int(new[np.isnan(shown.group)].sum())
    figures.node_count, figures.pod_count = len(ours) + int(new.sum()), placed
    figures.price_per_hour, figures.price_per_month = price, price * HOURS_A_MONTH
    figures.unpriced_node_count = unknown


def _most_saved(summary: pb.PlanSummary) -> float | None:
    """Return what no plan exceeds. What replacement can save at most counts from where scale-down ends."""
    by_code = {one.decision: one for one in summary.decisions}
    replacement = by_code.get(pb.Decision.REPLACEMENT)
    if replacement is not None and replacement.HasField("most_saved_per_hour"):
        before = sum(
            one.saved_per_hour - one.bought_per_hour
            for one in summary.decisions
            if one.decision in (pb.Decision.SCALE_DOWN, pb.Decision.CAPACITY_REQUESTS, pb.Decision.SCALE_UP)
        )
        return max(before + replacement.most_saved_per_hour, 0.0)
    removal = by_code.get(pb.Decision.SCALE_DOWN)
    if removal is not None and removal.HasField("most_saved_per_hour"):
        return removal.most_saved_per_hour
    return None
