"""The groups that grow, and the places of pods on existing, requested and new nodes, as messages."""

import numpy as np

from trimtab.places import UPCOMING, node_name
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Int64
from trimtab.v1 import plan_pb2 as pb


def add_splits(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add the groups that grow, by id."""
    progress = plan.progress
    groups, counts = np.unique(np.array(progress.group_of, np.int64), return_counts=True)
    for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
        row = progress.groups[group]
        price = None if np.isnan(row.price_per_hour) else row.price_per_hour * count
        decision.splits.add(
            node_group=row.id,
            current_size=row.target_size,
            new_size=row.target_size + count,
            max_size=row.max_size,
            price_per_hour=price,
        )
        decision.price_per_hour += price or 0.0


def add_places(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add where pods have places, those on nodes that are there or were requested first, by name; then those on new
    nodes, by group, number and name. O(pods)."""
    before, new = _on_others(plan), _on_new(plan)
    pods = np.concatenate([before, new])
    if not len(pods):
        return
    used, at = np.unique(plan.progress.state.pod_node[pods], return_inverse=True)
    names = _node_names(plan, used)
    # Requested nodes of one group have one name.
    index = {"": 0}
    numbers = np.array([index.setdefault(name, len(index)) for name in names], np.int64)
    texts = plan.names_of(pods)
    decision.places.nodes.extend(index)
    decision.places.pods.extend(texts)
    decision.places.destinations.extend(numbers[at.reshape(-1)].tolist())
    later = np.isin(before, plan.bound_after_new_nodes())
    decision.after_new_nodes.extend(texts[row] for row in np.flatnonzero(later).tolist())


def _on_others(plan: ScaleUpPlan) -> Int32:
    """Return the pods that wait and have a place on a node that exists or was requested, by name. int32."""
    pods = plan.unplaced.pending.pods
    on = plan.progress.state.pod_node[pods]
    pods = pods[(on != NO_NODE) & ~np.isin(on, plan.progress.opened)]
    by_name: Int32 = pods[np.argsort(_ranks(plan, pods))]
    return by_name


def _on_new(plan: ScaleUpPlan) -> Int32:
    """Return the pods on new nodes, by group, number of the node and name. int32."""
    progress = plan.progress
    group_of = np.array(progress.group_of, np.int64)
    place = np.full(len(progress.state.node_state), -1, np.int64)
    place[progress.opened] = np.arange(len(group_of))
    is_new = place[progress.nodes] >= 0
    pods, place = progress.pods[is_new], place[progress.nodes[is_new]]
    return pods[np.lexsort((_ranks(plan, pods), place, group_of[place]))]


def _node_names(plan: ScaleUpPlan, nodes: Int64 | Int32) -> list[str]:
    """Return the names of nodes, those that do not exist after their groups."""
    progress, growth = plan.progress, plan.context.request.growth
    existing = plan.context.request.snapshot.nodes.name
    coming = np.full(len(progress.state.node_state), NO_NODE, np.int64)
    coming[growth.upcoming] = np.repeat(np.arange(len(growth.template_node)), np.diff(growth.upcoming_offsets))
    new, numbers = dict[int, str](), [0] * len(progress.groups)
    for node, group in zip(progress.opened.tolist(), progress.group_of, strict=True):
        new[node] = node_name(progress.groups[group].id, numbers[group])
        numbers[group] += 1
    return [
        existing[node] if node < len(existing)
        else new[node] if node in new
        else node_name(progress.groups[coming[node]].id, UPCOMING)
        for node in nodes.tolist()
    ]  # fmt: skip


def _ranks(plan: ScaleUpPlan, pods: Int32) -> Int64:
    """Return numbers that sort pods : int32[M] like their names. int64[M]."""
    snapshot = plan.context.request.snapshot
    if len(pods) and int(pods.max()) >= len(snapshot.pods.spec):
        names = plan.names_of(pods)
        place = {name: at for at, name in enumerate(sorted(names))}
        return np.array([place[name] for name in names], np.int64)
    # Pods are sorted by namespace and name; "a-b/x" comes before "a/x".
    spaces, of = np.unique(snapshot.pods.namespace[pods], return_inverse=True)
    texts = [f"{snapshot.strings[space]}/" for space in spaces.tolist()]
    place_of = np.empty(len(texts), np.int64)
    place_of[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    ranks: Int64 = place_of[of.reshape(-1)] * len(snapshot.pods.spec) + pods
    return ranks
