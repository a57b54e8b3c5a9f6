"""Why a new node of each group refuses each pod, with one node opened at a time."""

from tests.reference.simulation.checks import failing
from tests.reference.simulation.moves import Cluster


def refusals(cluster: Cluster, blank: str, prototypes: list[str], pods: list[int]) -> list[list[int]]:
    """Return for each pod and prototype the mask `1 << reason`, -1 without a prototype ("")."""
    found: list[list[int]] = [[] for _ in pods]
    for prototype in prototypes:
        before = cluster.mark()
        if prototype:
            cluster.open_as(blank, prototype)
        for row, pod in enumerate(pods):
            reasons = failing(cluster, cluster.pods[pod], blank) if prototype else set()
            found[row].append(sum(1 << int(reason) for reason in reasons) if prototype else -1)
        cluster.revert(before)
    return found
