"""Packing the pods of a set of nodes in plain Python: every node is checked for every pod."""

from typing import Any

from tests.reference.predicates.compose import because
from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import fits

PACKED, NOT_ALLOWED, UNPLACED = 0, 1, 2


def pack(
    loop: Loop, nodes: list[int], pods: list[int], hint: dict[int, int], weight: tuple[float, float], tries: int,
    depends: list[bool],
) -> tuple[int, dict[int, int]]:  # fmt: skip
    """Return the result, and the destination of each pod that has one; the loop stays as it was. weight : of what is
    left free of cpu and memory; tries : how often pods may be displaced; depends : of each pod, whether it depends on
    others.
    """
    if not _allowed(loop, nodes):
        return NOT_ALLOWED, {}
    names, fork = list(loop.cluster.nodes), loop.cluster.mark()
    for node in nodes:
        loop.cluster.cordon(names[node])
    for pod in pods:
        loop.cluster.remove(pod)
    packing = _Packing(loop, pods, dict(hint), weight, depends)
    is_packed = packing.run(tries)
    loop.cluster.revert(fork)
    return PACKED if is_packed else UNPLACED, packing.where


class _Packing:
    """where : destination by pod, in the order of placing; waiting : pods without a place, the next one last."""

    def __init__(
        self, loop: Loop, pods: list[int], hint: dict[int, int], weight: tuple[float, float], depends: list[bool]
    ) -> None:
        self._loop, self._pods, self._hint, self._weight, self._depends = loop, pods, hint, weight, depends
        self._names = list(loop.cluster.nodes)
        self._dearness = dict.fromkeys(pods, 1)
        self._waiting = pods[::-1]
        self.where: dict[int, int] = {}

    def run(self, tries: int) -> bool:
        """Return whether all pods are placed in the end."""
        left, unfit = tries, 0
        while self._waiting:
            pod = self._waiting.pop()
            target = self._hint.pop(pod, -1)
            if target < 0 or not _fits(self._loop, pod, target):
                target = _tightest(self._loop, pod, self._weight)
            if target < 0:
                displaced: list[int] = []
                if left:
                    left -= 1
                    self._dearness[pod] += 1
                    target, displaced = self._to_clear(pod)
                if target < 0:
                    self._waiting.append(pod)
                    return False
                for one in displaced:
                    self._take_off(one)
            self._loop.cluster.place(pod, self._names[target])
            self.where[pod] = target
            if not self._waiting and (unfits := self._first_unfit()) >= 0:
                self._take_off(unfits)
                self._dearness[unfits] += 1
                if unfit == tries:
                    return False
                unfit += 1
        return True

    def _take_off(self, pod: int) -> None:
        self._loop.cluster.remove(pod)
        del self.where[pod]
        self._waiting.append(pod)

    def _first_unfit(self) -> int:
        """Return the first pod that depends on others and does not fit with all others placed, -1 if all fit."""
        for pod in self._pods:
            self._loop.cluster.remove(pod)
            fits_still = not self._depends[pod] or _fits(self._loop, pod, self.where[pod])
            self._loop.cluster.place(pod, self._names[self.where[pod]])
            if not fits_still:
                return pod
        return -1

    def _to_clear(self, pod: int) -> tuple[int, list[int]]:
        """Return the node with room for a pod without one or two others, the least dear ones, and these; -1 if none."""
        found: tuple[int, list[int]] = (-1, [])
        least = 0
        for node in self._loop.order:
            if not self._loop.allowed[node]:
                continue
            there = [one for one, at in reversed(self.where.items()) if at == node]
            away = self._depends[pod] and because(self._loop.cluster, self._loop.cluster.pods[pod], self._names[node])
            for number, one in enumerate(there):
                for some in [[one], *([one, other] for other in there[number + 1 :])]:
                    dear = sum(self._dearness[other] for other in some)
                    may = not away or any(self._depends[other] for other in some)
                    if may and (found[0] < 0 or dear < least) and self._fits_without(pod, node, some):
                        found, least = (node, some), dear
        return found

    def _fits_without(self, pod: int, node: int, others: list[int]) -> bool:
        fork = self._loop.cluster.mark()
        for other in others:
            self._loop.cluster.remove(other)
        admits = _fits(self._loop, pod, node)
        self._loop.cluster.revert(fork)
        return admits


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
