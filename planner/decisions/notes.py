"""Notes on a request besides the answer: settings without effect, dangling references. Every given setting that this
build does not support is noted.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from trimtab.planner.decisions.table import Table, missing
from trimtab.planner.facts.recent_evictions import described
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import FLAG_OTHER_KIND, Snapshot
from trimtab.v1 import plan_pb2 as pb


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
    unknown = [f"{one.namespace}/{one.name}" for one in described(snapshot, snapshot.recent_evictions) if one.spec < 0]
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
