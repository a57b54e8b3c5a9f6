"""What replacement changes, and what it says of each node that is replaced, from its result. Pure."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from trimtab.places import moves_by_node
from trimtab.planner.round.decision import NodeChange
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2 as pb


def change_of(snapshot: Snapshot, result: pb.ReplacementDecision, most_saved: float | None) -> NodeChange:
    """Return what the waves change. O(nodes of the waves)."""
    names, group_at = snapshot.nodes.name, {group.id: row for row, group in enumerate(snapshot.groups)}
    gone = sorted(bisect_left(names, one.node) for wave in result.waves for one in wave.leaving)
    new = [group_at[one.node_group] for wave in result.waves for one in wave.new_nodes]
    return NodeChange(np.array(gone, np.int32), new, objective=pb.Objective.MONEY, most_saved=most_saved)


def judge(
    result: pb.ReplacementDecision, kept: Iterable[tuple[int, pb.NotReplaced]], verdicts: Sequence[pb.NodeVerdict]
) -> None:
    """Write which nodes are replaced, and by what, and why others are not. kept : nodes that are not."""
    for node, why in kept:
        verdicts[node].not_replaced.CopyFrom(why)
    verdict_on, new = {one.node: one for one in verdicts} if result.waves else {}, set[str]()
    for number, wave in enumerate(result.waves, 1):
        new.update(one.name for one in wave.new_nodes)
        moves = moves_by_node(wave.places)
        for one in wave.leaving:
            verdict = verdict_on[one.node]
            verdict.fate, verdict.wave = pb.NodeFate.REPLACED, number
            verdict.replaced_by.extend(sorted(new.intersection(moves.get(one.node, {}).values())))
