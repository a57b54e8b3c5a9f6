"""Equal pods on existing nodes, in plain Python: each pod goes to the first node that fits it."""

from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster


def place_equal(cluster: Cluster, pods: list[int], order: list[str]) -> int:
    """Place pods on the first nodes in order that fit them; return how many have a place."""
    placed = 0
    for pod in pods:
        found = next((name for name in order if fits(cluster, cluster.pods[pod], name)), None)
        if found is None:
            break
        cluster.place(pod, found)
        placed += 1
    return placed
