"""What an answer says once, for all decisions: summary, verdicts on nodes, notes on the request.

The summary has nodes and money of a plan: now, after each decision, and after all of them. It adds up what the
decisions say that they change (`Decided.change`). Prices are those of `facts.nodes.shown_prices`. Each node of the
snapshot has one verdict, what becomes of it. What is known of a node comes from the snapshot; what is decided, from the
decisions (`Decided.judge`), the later ones after the earlier. The clause for people is written here, once, for all of
them. Notes name settings without effect, such as those that this build does not support, and dangling references.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.decisions.table import Table, missing
from trimtab.planner.facts.labels import values_by_label_set
from trimtab.planner.facts.nodes import ShownPrices, shown_prices, total
from trimtab.planner.facts.pods import described
from trimtab.planner.facts.readiness import unregistered
from trimtab.planner.round.decision import NodeChange
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_OTHER_KIND, Bool, Int64, Snapshot
from trimtab.prices import HOURS_A_MONTH
from trimtab.reason_texts import NODE_SENTENCES, POD_SENTENCES
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import UnremovableReason

Changes = Iterable[tuple["pb.Decision.Code.ValueType", NodeChange]]
Judge = Callable[[Sequence[pb.NodeVerdict]], None]
_ZONES: Final = (well_known.ZONE.key, well_known.OLD_ZONE.key)
_TYPES: Final = (well_known.INSTANCE_TYPE.key, well_known.OLD_INSTANCE_TYPE.key)


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
    bound = _most_saved(summary)
    if bound is not None:
        summary.most_saved_per_hour = bound
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
    by_code = {decision.decision: decision for decision in summary.decisions}
    replacement = by_code.get(pb.Decision.REPLACEMENT)
    if replacement is not None and replacement.HasField("most_saved_per_hour"):
        before = sum(
            decision.saved_per_hour - decision.bought_per_hour
            for decision in summary.decisions
            if decision.decision in (pb.Decision.SCALE_DOWN, pb.Decision.CAPACITY_REQUESTS, pb.Decision.SCALE_UP)
        )
        return max(before + replacement.most_saved_per_hour, 0.0)
    removal = by_code.get(pb.Decision.SCALE_DOWN)
    if removal is not None and removal.HasField("most_saved_per_hour"):
        return removal.most_saved_per_hour
    return None


class PodCounts(NamedTuple):
    """Pods considered, those of them that cannot be decided, those on nodes that the snapshot lacks, those on nodes."""

    pods: int
    unsupported: int
    orphaned: int
    placed: int


class PodCountsKey(SnapshotKey[PodCounts]):
    """The numbers of pods."""


def count_pods(snapshot: Snapshot) -> PodCounts:
    """Count pods. O(P + specs)."""
    pods = snapshot.pods
    takes_part = ~pods.is_terminal()
    unsupported = np.array([bool(spec.unsupported) for spec in snapshot.specs], np.bool_)
    return PodCounts(
        int(takes_part.sum()),
        int((unsupported[pods.spec] & takes_part).sum()) if len(unsupported) else 0,
        int(takes_part[snapshot.dangling.node.row].sum()),
        int((takes_part & (pods.node >= 0)).sum()),
    )


def notes(snapshot: Snapshot, request: pb.PlanRequest, table: Table) -> Iterator[str]:
    """Yield notes on settings and on the snapshot."""
    yield from _on_settings(snapshot, request.settings, table)
    missing_groups = sorted(snapshot.dangling.group.names)
    if missing_groups:
        shown = ", ".join(missing_groups[:5])
        yield f"nodes name node groups that the snapshot lacks, and are not autoscaled: {shown}"
    unknown = [
        f"{eviction.namespace}/{eviction.name}"
        for eviction in described(snapshot, snapshot.recent_evictions)
        if eviction.spec < 0
    ]
    if unknown:
        shown = ", ".join(unknown[:3]) + (", …" if len(unknown) > 3 else "")
        yield (
            f"no room is reserved for {len(unknown)} evicted pods: neither their spec nor another pod of their "
            f"owner is known: {shown}"
        )
    flags = snapshot.pods.flags[snapshot.dangling.owner.row]
    controlled = int(np.count_nonzero((flags & FLAG_OTHER_KIND) == 0))
    if controlled and not snapshot.owners:
        yield (
            f"{controlled} pod{' has' if controlled == 1 else 's have'} a controller, but the snapshot lists no "
            "controllers: all count as not found and block their nodes; add them, as `kubectl get rs,sts,jobs,rc -A`"
        )


def _on_settings(snapshot: Snapshot, settings: pb.PlanSettings, table: Table) -> Iterable[str]:
    """Yield notes on settings without effect."""
    groups = {group.id for group in snapshot.groups}
    for name in sorted(settings.node_groups):
        if name not in groups:
            yield f"settings.node_groups[{name!r}] has no effect: the snapshot has no such node group"
    without = list(missing(table))
    for field in without:
        if settings.HasField(field):  # type: ignore[arg-type]
            yield f"settings.{field} has no effect: this build does not support that decision"
    if "scale_up" in without:
        for i, limit in enumerate(settings.planner.limits):
            for field in ("maximum", "maximum_added"):
                if limit.HasField(field):  # type: ignore[arg-type]
                    yield f"settings.planner.limits[{i}].{field} has no effect: this build does not support SCALE_UP"


class KnownNodesKey(SnapshotKey[bytes]):
    """The verdicts on the nodes of a snapshot before any decision, as an encoded answer."""


def write_verdicts(
    answer: pb.PlanResponse,
    snapshot: Snapshot,
    cache: SnapshotCache,
    leaving: Bool,
    starting: Bool,
    judges: Iterable[Judge],
) -> None:
    """Add a verdict for each node. leaving, starting : bool[N], being deleted, and registered but still starting;
    judges : of the decisions, in the order in which they were taken. O(N) for each.
    """
    answer.MergeFromString(cache.get(KnownNodesKey(), snapshot, _known_nodes))
    verdicts = list(answer.nodes)
    for judge in judges:
        judge(verdicts)
    going = (pb.NodeFate.GOES_NOW, pb.NodeFate.GOES_LATER, pb.NodeFate.REPLACED)
    for node in np.flatnonzero(starting | leaving).tolist():
        if verdicts[node].fate not in going:
            verdicts[node].fate = pb.NodeFate.LEAVING if leaving[node] else pb.NodeFate.COMING
    for verdict in verdicts:
        if reason := verdict.reason:
            blocking = verdict.blocking_reason if reason == UnremovableReason.BLOCKED_BY_POD else 0
            verdict.why = f"a pod {POD_SENTENCES[blocking]}" if blocking else NODE_SENTENCES[reason]


def _known_nodes(snapshot: Snapshot) -> bytes:
    """Return what is known of nodes before any decision. O(N)."""
    nodes, answer = snapshot.nodes, pb.PlanResponse()
    group_ids = [*(group.id for group in snapshot.groups), ""]
    rows = zip(
        nodes.name,
        nodes.group.tolist(),
        _first(snapshot, _ZONES),
        _first(snapshot, _TYPES),
        shown_prices(snapshot).node.tolist(),
        strict=True,
    )
    for name, group, zone, kind, price in rows:
        answer.nodes.add(
            node=name,
            node_group=group_ids[group],
            zone=zone,
            instance_type=kind,
            price_per_hour=None if math.isnan(price) else price,
        )
    return answer.SerializeToString(deterministic=True)


def _first(snapshot: Snapshot, keys: Sequence[str]) -> list[str]:
    """Return for each node the value of the first of some labels that it has, "" = none."""
    values = [""] * (len(snapshot.label_sets.offsets) - 1)
    for key in reversed(keys):
        values = [label or value for label, value in zip(values_by_label_set(snapshot, key), values, strict=True)]
    return [values[row] for row in snapshot.nodes.label_set.tolist()]
