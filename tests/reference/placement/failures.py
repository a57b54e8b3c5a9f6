"""Which nodes admit a pod that leaves its node, by checking all predicates on a cluster without the pod."""

from collections import Counter

from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import failing


def refusals(loop: Loop, pod: int, allowed: list[bool]) -> Counter[int]:
    """Count by reason the allowed nodes, except its own, that refuse a pod; reason 0 counts those that admit it."""
    cluster, names = loop.cluster, list(loop.cluster.nodes)
    home = cluster.at[pod]
    fork = cluster.mark()
    cluster.remove(pod)
    counts: Counter[int] = Counter()
    for number, name in enumerate(names):
        if allowed[number] and name != home:
            counts.update(failing(cluster, cluster.pods[pod], name) or {0})
    cluster.revert(fork)
    return counts
