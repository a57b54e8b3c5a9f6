"""Why the pods of a node do not all fit at the same time, by placing them on a copy of the cluster."""

from collections import Counter

from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import failing, fits


def joint_failures(loop: Loop, node: int) -> tuple[int, dict[int, int]]:
    """Return the first pod of a node without a place (-1 = none), and the number of refusing nodes by reason."""
    cluster, names = loop.cluster, list(loop.cluster.nodes)
    others = [other for other in range(len(names)) if loop.allowed[other] and other != node]
    fork = cluster.mark()
    cluster.cordon(names[node])
    # Pods received last are placed first.
    pods = loop.moving[node] + loop.incoming.get(node, [])[::-1]
    for pod in pods:
        cluster.remove(pod)
    try:
        for pod in pods:
            wanted = [loop.hint[pod]] if loop.hint.get(pod, -1) >= 0 else []
            places = [one for one in [*wanted, *loop.order] if one in others]
            target = next((one for one in places if fits(cluster, cluster.pods[pod], names[one])), -1)
            if target < 0:
                refused = Counter(
                    reason for other in others for reason in failing(cluster, cluster.pods[pod], names[other])
                )
                return pod, dict(refused)
            cluster.place(pod, names[target])
        return -1, {}
    finally:
        cluster.revert(fork)
