"""A proof of slack and scale-down together, from the messages alone and without planner code.

For clusters of plain pods: requests and nothing else. Equal placeholders of one set can be counted: a node has room for
as many as its free amounts hold.
"""

from collections import Counter
from collections.abc import Mapping

from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

from tests.builders.snapshots import Cluster

Amounts = tuple[int, int, int]
"""cpu, memory, pods."""


def offences(cluster: Cluster, answer: pb.PlanResponse) -> list[str]:
    """Return what is wrong with an answer to a cluster with one set of placeholders; [] = nothing."""
    rows = answer.slack.placeholders
    sizes = {(one.cpu_milli, one.memory_bytes, 1) for one in rows}
    if not rows:
        return []
    if len(sizes) > 1:
        return [f"{len(sizes)} sizes"]
    (size,) = sizes
    now = free(cluster, {})
    held = Counter(one.node for one in rows if one.node)
    found = [f"{node} holds more than it has" for node, count in held.items() if count > takes(now[node], size)]
    gone = {one.node for one in answer.scale_down.unneeded}
    moves = {pod: node for one in answer.scale_down.unneeded for pod, node in one.destinations.items()}
    later = {node: room for node, room in free(cluster, moves).items() if node not in gone}
    found += [f"{node} gets more pods than it has room for" for node, room in later.items() if min(room) < 0]
    room = {node: takes(amounts, size) for node, amounts in later.items()}
    if sum(room.values()) < sum(held.values()):
        found.append(f"room for {sum(room.values())} of {sum(held.values())} placeholders is left")
    return found + _needless(cluster, answer, room, sum(held.values()))


def _needless(cluster: Cluster, answer: pb.PlanResponse, room: Mapping[str, int], wanted: int) -> list[str]:
    """Return nodes without pods that are kept for slack although the others have room for it."""
    busy = {pod.node for pod in cluster.pods.values()}
    kept = [
        one.node
        for one in answer.scale_down.unremovable
        if one.reason == reason_pb2.UnremovableReason.NEEDED_FOR_SLACK and one.node not in busy
    ]
    return [f"{node} is kept for slack without need" for node in kept if sum(room.values()) - room[node] >= wanted]


def free(cluster: Cluster, moves: Mapping[str, str]) -> dict[str, Amounts]:
    """Return what each node has free once pods ("namespace/name") have moved; pods that wait have no place."""
    left = {}
    for name, node in cluster.nodes.items():
        offered = dict(node.allocatable)
        left[name] = [offered.get("cpu", 0), offered.get("memory", 0), offered.get("pods", 0)]
    for (namespace, pod_name), pod in cluster.pods.items():
        at = moves.get(f"{namespace}/{pod_name}", pod.node)
        if at in left:
            asked = dict(pod.spec.requests)
            for column, amount in enumerate((asked.get("cpu", 0), asked.get("memory", 0), 1)):
                left[at][column] -= amount
    return {name: (rest[0], rest[1], rest[2]) for name, rest in left.items()}


def takes(room: Amounts, size: Amounts) -> int:
    """Return how many placeholders of a size have room."""
    return max(min(amount // one for amount, one in zip(room, size, strict=True) if one > 0), 0)
