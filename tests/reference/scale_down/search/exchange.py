"""Packing the pods of a set of nodes in plain Python: every node is checked for every pod."""

from typing import Any

from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import fits

PACKED, NOT_ALLOWED, UNPLACED = 0, 1, 2


def pack(
    loop: Loop, nodes: list[int], pods: list[int], hint: dict[int, int], weight: tuple[float, float]
) -> tuple[int, dict[int, int]]:
    """Return the result, and the destination of each pod placed; the loop stays as it was. weight : of what is left
    free of cpu and memory."""
    if not _allowed(loop, nodes):
        return NOT_ALLOWED, {}
    names, fork = list(loop.cluster.nodes), loop.cluster.mark()
    for node in nodes:
        loop.cluster.cordon(names[node])
    for pod in pods:
        loop.cluster.remove(pod)
    where: dict[int, int] = {}
    for pod in pods:
        target = hint.get(pod, -1)
        if target < 0 or not _fits(loop, pod, target):
            target = _tightest(loop, pod, weight)
        if target < 0:
            loop.cluster.revert(fork)
            return UNPLACED, where
        loop.cluster.place(pod, names[target])
        where[pod] = target
    loop.cluster.revert(fork)
    return PACKED, where


def _allowed(loop: Loop, nodes: list[int]) -> bool:
    """Return whether minimums and budgets allow all nodes together."""
    for number, node in enumerate(nodes):
        before = nodes[:number]
        if loop.group_left[loop.group[node]] - sum(loop.group[one] == loop.group[node] for one in before) <= 0:
            return False
        for q, amount in enumerate(loop.amount[node]):
            if 0 < amount > loop.amount_left[q] - sum(loop.amount[one][q] for one in before):
                return False
    uses = [pair for node in nodes for pod in loop.moving[node] for pair in loop.needs[pod] if pair[1]]
    return all(sum(need for of, need in uses if of == budget) <= loop.left[budget] for budget, _ in uses)


def _fits(loop: Loop, pod: int, node: int) -> bool:
    name = list(loop.cluster.nodes)[node]
    return loop.allowed[node] and fits(loop.cluster, loop.cluster.pods[pod], name)


def _tightest(loop: Loop, pod: int, weight: tuple[float, float]) -> int:
    """Return the node that is left with least room, -1 if none admits the pod."""
    found = [node for node in loop.order if _fits(loop, pod, node)]
    if not found or weight == (0.0, 0.0):
        return found[0] if found else -1
    return min(found, key=lambda node: _left(loop, pod, node, weight))


def _left(loop: Loop, pod: int, node: int, weight: tuple[float, float]) -> float:
    """Return what a pod leaves free on a node."""
    name = list(loop.cluster.nodes)[node]
    needs: dict[str, Any] = dict(loop.cluster.pods[pod].spec.requests)
    free = [_free(loop, name, resource) for resource in ("cpu", "memory")]
    return sum((has - needs.get(of, 0)) * one for has, of, one in zip(free, ("cpu", "memory"), weight, strict=True))


def _free(loop: Loop, name: str, resource: str) -> int:
    node = loop.cluster.nodes[name]
    on = [loop.cluster.pods[pod] for pod, at in enumerate(loop.cluster.at) if at == name]
    return int(node.allocatable.get(resource, 0)) - sum(dict(one.spec.requests).get(resource, 0) for one in on)
