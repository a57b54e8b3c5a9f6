"""Which nodes have to stay such that the pods of all others can be placed in some order, by checking every pod in
rounds.
"""

from collections.abc import Iterable

from tests.builders.rows import PodRow
from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import fits
from trimtab.planner.model.values import FOLLOWS


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
