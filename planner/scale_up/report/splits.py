"""The groups that grow, with the pods of each new node, as a message.

A kernel writes names of pods as protobuf bytes, which are then merged, because building them entry by entry is far
slower.
"""

from itertools import pairwise
from typing import Final

import numpy as np

from trimtab.planner.model.wire import entry, tag
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.scale_up.report.kernels.wire import write_pods
from trimtab.planner.snapshot.columns import Int32, Int64, UInt8
from trimtab.planner.snapshot.texts import Names, joined, texts_of
from trimtab.v1 import plan_pb2 as pb
from trimtab.wire import LENGTH_DELIMITED

PODS_OF_SPLIT: Final = pb.ScaleUpSplit.DESCRIPTOR.fields_by_name["pods"].number << 3 | LENGTH_DELIMITED
NEW_NODES: Final = tag(pb.ScaleUpSplit, "new_nodes")
PODS_OF_NODE: Final = pb.NewNode.DESCRIPTOR.fields_by_name["pods"].number << 3 | LENGTH_DELIMITED


def add_splits(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add the groups that grow, by id; new nodes in the order of opening. O(bytes of names)."""
    progress = plan.progress
    if not progress.group_of:
        return
    group_of = np.array(progress.group_of, np.int64)
    place = np.full(len(progress.state.node_state), -1, np.int64)
    place[progress.opened] = np.arange(len(group_of))
    there = place[progress.nodes] >= 0
    pods, place = progress.pods[there], place[progress.nodes[there]]
    rank, names = _ranks(plan, pods), _names(plan)
    nodes = _entries(names, pods[np.lexsort((rank, place))], PODS_OF_NODE, np.bincount(place, minlength=len(group_of)))
    groups = _entries(
        names, pods[np.lexsort((rank, group_of[place]))], PODS_OF_SPLIT,
        np.bincount(group_of[place], minlength=len(progress.groups)),
    )  # fmt: skip
    for group in np.unique(group_of).tolist():
        row, members = progress.groups[group], np.flatnonzero(group_of == group).tolist()
        price = None if np.isnan(row.price_per_hour) else row.price_per_hour * len(members)
        split = decision.splits.add(
            node_group=row.id,
            current_size=row.target_size,
            new_size=row.target_size + len(members),
            max_size=row.max_size,
            price_per_hour=price,
        )
        new = b"".join(entry(NEW_NODES, nodes[at]) for at in members)
        split.MergeFromString(groups[group] + new)
        decision.price_per_hour += price or 0.0


def _ranks(plan: ScaleUpPlan, pods: Int32) -> Int64:
    """Return numbers that sort pods : int32[M] like their names. int64[M]."""
    snapshot = plan.context.request.snapshot
    if len(pods) and int(pods.max()) >= len(snapshot.pods.spec):
        place = {name: at for at, name in enumerate(sorted(plan.names_of(pods)))}
        return np.array([place[name] for name in plan.names_of(pods)], np.int64)
    # Pods are sorted by namespace and name; "a-b/x" comes before "a/x".
    spaces, of = np.unique(snapshot.pods.namespace[pods], return_inverse=True)
    texts = [f"{snapshot.strings[space]}/" for space in spaces.tolist()]
    place_of = np.empty(len(texts), np.int64)
    place_of[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    ranks: Int64 = place_of[of.reshape(-1)] * len(snapshot.pods.spec) + pods
    return ranks


def _names(plan: ScaleUpPlan) -> Names:
    """Return the names of pods, with those of virtual pods in place of node names."""
    request = plan.context.request
    virtual = np.arange(len(request.snapshot.pods.spec), len(plan.progress.state.pod_node), dtype=np.int32)
    data, offsets = joined([plan.name_of(pod) for pod in virtual.tolist()])
    return texts_of(request.snapshot, request.cache)._replace(nodes=data, node_offsets=offsets)


def _entries(names: Names, pods: Int32, tag: int, counts: Int64) -> list[bytes]:
    """Return the names of pods as entries of a field, in parts of the given number of pods."""
    ends = np.zeros(len(pods), np.int64)
    out: UInt8 = np.empty(write_pods(names, pods, tag, np.zeros(0, np.uint8), ends), np.uint8)
    if len(out):
        write_pods(names, pods, tag, out, ends)
    written = out.tobytes()
    bounds = np.append(0, ends)[np.append(0, np.cumsum(counts))].tolist()
    return [written[first:last] for first, last in pairwise(bounds)]
