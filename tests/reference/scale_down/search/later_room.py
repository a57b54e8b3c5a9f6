"""Room held for the pods of nodes that go later, in plain Python, for pods that depend on no others."""

from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import fits


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
