"""Room held for the pods of nodes that go later, in plain Python, for pods that depend on no others.

Which nodes have to stay such that the pods of all others can be placed in some order, by checking every pod in
rounds.

The waves of a set of nodes by budgets alone, in plain Python.
"""

from collections.abc import Iterable, Sequence

from tests.builders.rows import PodRow
from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import fits
from trimtab.planner.model.values import FOLLOWS


def hold(loop: Loop, nodes: list[int]) -> bool:
    """Put the pods of nodes at their hints, one after the other; if one does not fit there, change nothing."""
    cluster, names = loop.cluster, list(loop.cluster.nodes)
    pods = [pod for node in nodes for pod in loop.moving[node]]
    targets = [loop.hint.get(pod, -1) for pod in pods]
    if any(target < 0 or not loop.allowed[target] for target in targets):
        return False
    fork = cluster.mark()
    for pod in pods:
        cluster.remove(pod)
    for pod, target in zip(pods, targets, strict=True):
        if not fits(cluster, cluster.pods[pod], names[target]):
            cluster.revert(fork)
            return False
        cluster.place(pod, names[target])
    return True


def without_order(loop: Loop, loose: Iterable[int], marked: Iterable[int]) -> dict[int, int]:
    """Return the nodes that must stay besides marked ones, each with the pod that never fits. Changes nothing."""
    cluster, names = loop.cluster, list(loop.cluster.nodes)
    before, stays, found = cluster.mark(), set(marked), dict[int, int]()
    for pod in loose:
        cluster.remove(pod)
    for node in loop.accepted:
        for pod in loop.moving[node]:
            if node in stays:
                cluster.place(pod, names[node])
            elif _may_need_others(cluster.pods[pod]):
                cluster.remove(pod)
    while waiting := [(n, p) for n in loop.accepted if n not in stays for p in loop.moving[n] if not cluster.at[p]]:
        placed = False
        for _, pod in waiting:
            target = names[loop.destination[pod]]
            if fits(cluster, cluster.pods[pod], target):
                cluster.place(pod, target)
                placed = True
        if not placed:
            node, blocking_pod = waiting[0]
            stays.add(node)
            found[node] = blocking_pod
            for pod in loop.moving[node]:
                cluster.place(pod, names[node])
    cluster.revert(before)
    return found


def _may_need_others(pod: PodRow) -> bool:
    """Whether a pod may need others at their destinations: by affinity, spread or a claim that another one brings."""
    spec = pod.spec
    return bool(spec.pod_affinity or spec.topology_spread or any(one.together == FOLLOWS for one in spec.claims))


def wave_numbers(loop: Loop, nodes: Sequence[int], now: Sequence[int], later: Sequence[int], most: int) -> list[int]:
    """Return the wave of each node, in order, 0 for those that no wave takes: each the first with room for it.

    now, later : disruptions by budget in the first wave, and in each other one.
    """
    found = [0] * len(nodes)
    for number in range(1, most + 1):
        left = list(now if number == 1 else later)
        for row, node in enumerate(nodes):
            need = [0] * len(left)
            for pod in loop.moving[node]:
                for budget, one in loop.needs[pod]:
                    need[budget] += one
            fits = all(takes <= has for takes, has in zip(need, left, strict=True) if takes)
            if not found[row] and fits:
                found[row] = number
                left = [has - takes for has, takes in zip(left, need, strict=True)]
    return found
