"""Pods on given nodes, round after round, and pods wherever a node admits them, every node asked each time."""

from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster


def settle(cluster: Cluster, pods: list[int], nodes: list[str]) -> list[str]:
    """Place each pod on its node as soon as that admits it; return where each is placed, "" = nowhere."""
    placed = [""] * len(pods)
    progress = True
    while progress:
        progress = False
        for row, (pod, node) in enumerate(zip(pods, nodes, strict=True)):
            if node and not placed[row] and not cluster.at[pod] and fits(cluster, cluster.pods[pod], node):
                cluster.place(pod, node)
                placed[row], progress = node, True
    return placed


def first_fit(cluster: Cluster, pods: list[int], nodes: list[str]) -> list[str]:
    """Place each pod on the first node that admits it; return where each is placed, "" = nowhere."""
    placed = []
    for pod in pods:
        found = ""
        if not cluster.at[pod]:
            found = next((node for node in nodes if fits(cluster, cluster.pods[pod], node)), "")
        if found:
            cluster.place(pod, found)
        placed.append(found)
    return placed
