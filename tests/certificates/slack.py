"""A proof of slack and scale-down together, from the messages only, without planner code.

For clusters of plain pods that have only requests. Equal placeholders of one set can be counted: a node has room for as
many as its free amounts hold. The required number is computed from the remaining nodes.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from tests.builders.snapshots import Cluster
from trimtab.places import destinations
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import reason_pb2

Amounts = tuple[int, int, int]
"""cpu, memory, pods."""


def offences(cluster: Cluster, answer: pb.PlanResponse, rate: float, granularity: int = 5) -> list[str]:
    """Return the violations of an answer for a cluster of equal nodes with one set of placeholders; [] = none.

    rate, granularity : of slack, as requested.
    """
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
    moves = destinations(answer.scale_down.places)
    later = {node: room for node, room in free(cluster, moves).items() if node not in gone}
    found += [f"{node} gets more pods than it has room for" for node, room in later.items() if min(room) < 0]
    room = {node: takes(amounts, size) for node, amounts in later.items()}

    def asked(without: set[str]) -> int:
        offered = [dict(node.allocatable) for name, node in cluster.nodes.items() if name not in without]
        rows = [(one.get("cpu", 0), one.get("memory", 0)) for one in offered]
        return min(needed(rows, rate, granularity, size[:2]), sum(held.values()))

    if sum(room.values()) < asked(gone):
        found.append(f"room for {sum(room.values())} placeholders is left, {asked(gone)} are asked for")
    return found + _needless(cluster, answer, room, {name: asked(gone | {name}) for name in room})


def _needless(
    cluster: Cluster, answer: pb.PlanResponse, room: Mapping[str, int], without: Mapping[str, int]
) -> list[str]:
    """Return nodes without pods that are kept for slack although the others have room for it.

    room : number of placeholders that fit on the staying nodes; without : number requested if one of these goes too.
    The last node stays.
    """
    busy = {pod.node for pod in cluster.pods.values()}
    kept = [
        one.node
        for one in answer.nodes
        if one.fate == pb.NodeFate.STAYS
        and one.reason == reason_pb2.UnremovableReason.NEEDED_FOR_SLACK
        and one.node not in busy
    ]
    total = sum(room.values()) if len(room) > 1 else -1
    return [f"{node} is kept for slack without need" for node in kept if total - room[node] >= without[node]]


def needed(offered: Sequence[tuple[int, int]], rate: float, granularity: int, size: tuple[int, int]) -> int:
    """Return how many placeholders of a size make up the share of nodes that offer these amounts of cpu and memory.

    A size that is a rounded-down share of the average node counts as that share.
    """
    count = 0
    for column, own in enumerate(size):
        total = sum(row[column] for row in offered)
        asked = math.ceil(Fraction(repr(rate)) * total)
        part = Fraction(total, max(len(offered), 1) * granularity)
        each = part if int(part) == own else Fraction(own)
        count = max(count, (asked - 1) // each + 1 if asked > 0 and each > 0 else 0)
    return int(count)


def free(cluster: Cluster, moves: Mapping[str, str]) -> dict[str, Amounts]:
    """Return the free amounts of each node after pods ("namespace/name") have moved; pending pods have no place."""
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
    """Return how many placeholders of a size fit."""
    return max(min(amount // one for amount, one in zip(room, size, strict=True) if one > 0), 0)
