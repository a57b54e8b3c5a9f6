"""What becomes of each node: one message a node, for every node of the snapshot. What is known of a node comes from the
snapshot; what is decided, from the decisions (`Decided.judge`), the later ones after the earlier. The clause for people
is written here, once, for all of them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from trimtab.common.kubernetes.signals import well_known
from trimtab.planner.facts.label_values import values_by_label_set
from trimtab.planner.facts.shown_prices import shown_prices
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.columns import Bool, Snapshot
from trimtab.reason_texts import NODE_SENTENCES, POD_SENTENCES
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import UnremovableReason

Judge = Callable[[Sequence[pb.NodeVerdict]], None]
_ZONES: Final = (well_known.ZONE.key, well_known.OLD_ZONE.key)
_TYPES: Final = (well_known.INSTANCE_TYPE.key, well_known.OLD_INSTANCE_TYPE.key)


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
    for one in verdicts:
        if reason := one.reason:
            blocking = one.blocking_reason if reason == UnremovableReason.BLOCKED_BY_POD else 0
            one.why = f"a pod {POD_SENTENCES[blocking]}" if blocking else NODE_SENTENCES[reason]


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
        values = [found or value for found, value in zip(values_by_label_set(snapshot, key), values, strict=True)]
    return [values[row] for row in snapshot.nodes.label_set.tolist()]
