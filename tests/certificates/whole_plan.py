"""Proof that the decisions of one plan are consistent, from the messages only, without planner code.

All placed pending pods, all moved pods and all placed placeholders are on the staying nodes at the same time. For one
set of equal placeholders that may be on any node, it is enough to count: the present number must fit on the staying
nodes, or the number that their share requires if that is smaller.
"""

from collections import Counter
from collections.abc import Iterator

from tests.certificates import scale_up, whole_replacement
from tests.certificates.scheduling import BY_OTHERS, PREDICATES, Placement
from tests.certificates.slack import needed
from trimtab.places import destinations, on_existing
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

BY_NODE = tuple(one for one in PREDICATES if one not in BY_OTHERS)
"""Predicates that depend only on the node and its pods."""


def offences(
    snapshot: pb.ClusterSnapshot, settings: plan_pb2.PlanSettings, answer: plan_pb2.PlanResponse, now_s: int
) -> list[str]:
    """Return every conflict between scale-up, scale-down, replacement and slack of one answer."""
    plan = scale_up.Plan(snapshot, settings, answer.scale_up, now_s)
    end = plan.end()
    gone = {entry.node for entry in answer.scale_down.unneeded}
    found = [f"{key} is placed on {node}, which goes" for key, node in _placed(answer) if node in gone]
    moves = destinations(answer.scale_down.places)
    after = _moved(plan, end, gone, moves)
    found += [f"{key} goes to {node}, which does not stay" for key, node in moves.items() if node not in after.nodes]
    found += whole_replacement.conflicts(plan, answer)
    after = whole_replacement.carried_out(plan, after, answer.replacement)
    moves |= whole_replacement.moves_of(answer.replacement)
    found += [f"{key} ends on {node}, which does not stay" for key, node in moves.items() if node not in after.nodes]
    touched = sorted([*_placed(answer), *((key, node) for key, node in moves.items() if node in after.nodes)])
    for key, node in touched:
        if node in after.nodes:
            found += [f"{key} on {node}: {why}" for one in BY_NODE if (why := one(after, plan.pods[key], node))]
    return found + list(_slack(plan, after, answer, settings.slack))


def _placed(answer: plan_pb2.PlanResponse) -> list[tuple[str, str]]:
    """Return the pending pods that are placed on existing nodes."""
    return sorted(on_existing(answer.scale_up).items())


def _moved(plan: scale_up.Plan, end: Placement, gone: set[str], moves: dict[str, str]) -> Placement:
    """Return the pods' nodes after the unneeded nodes are gone."""
    node_of = {pod.key: name for name, pods in end.on.items() for pod in pods if name not in gone}
    return Placement(plan.cluster, end.nodes - gone, node_of | {k: n for k, n in moves.items() if k in plan.pods})


def _slack(
    plan: scale_up.Plan, after: Placement, answer: plan_pb2.PlanResponse, settings: plan_pb2.SlackSettings
) -> Iterator[str]:
    """Check that the staying and new nodes have room for the placed placeholders."""
    rows = answer.slack.placeholders
    sizes = {(one.cpu_milli, one.memory_bytes) for one in rows}
    if not rows:
        return
    if len(sizes) > 1:
        yield f"{len(sizes)} sizes of placeholders"
        return
    names = {one.name for one in rows}
    on_new = Counter(
        name
        for group, nodes in plan.new_nodes.items()
        for name, pods in zip(plan.new[group], nodes, strict=True)
        for pod in pods
        if pod in names
    )
    ((cpu, memory),) = sizes
    room = {name: _takes(plan, after, name, {"cpu": cpu, "memory": memory}) for name in after.nodes}
    replacing = {one.name for wave in answer.replacement.waves for one in wave.new_nodes}
    yield from (f"{name} is to hold {n} placeholders, of {room[name]}" for name, n in on_new.items() if n > room[name])
    known = {name for name in plan.known | replacing if name in after.nodes and plan.cluster.nodes[name].ready}
    wanted, has = sum(bool(one.node) for one in rows), sum(room[name] for name in known)
    left = [plan.cluster.amounts(name) for name in sorted(known) if _counts(plan, name)]
    offered = [(one.get("cpu", 0), one.get("memory", 0)) for one in left]
    wanted = min(wanted, needed(offered, settings.extra_capacity_min_rate, settings.granularity or 5, (cpu, memory)))
    if wanted > has:
        yield f"{wanted} placeholders are to have room, {has} have it on the nodes that stay"


def _counts(plan: scale_up.Plan, node: str) -> bool:
    """Return whether slack counts a node: it takes pods without tolerations."""
    row = plan.cluster.nodes[node]
    return not row.unschedulable and all(one.effect == pb.TaintEffect.PREFER_NO_SCHEDULE for one in row.taints)


def _takes(plan: scale_up.Plan, after: Placement, node: str, size: dict[str, int]) -> int:
    """Return how many placeholders fit on a node."""
    cluster = plan.cluster
    if not _counts(plan, node):
        return 0
    offered, there = cluster.amounts(node), after.on[node]
    left = [offered.get("pods", 0) - len(there)]
    for name, amount in size.items():
        used = sum(cluster.requests(pod).get(name, 0) for pod in there)
        if amount:
            left.append((offered.get(name, 0) - used) // amount)
    return max(min(left), 0)
