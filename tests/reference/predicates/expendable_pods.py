"""Room beside expendable pods, which only plans know: as the cluster runs, no node has any that gives way."""

from tests.builders.rows import PodRow
from tests.reference.simulation.moves import Cluster


def refusals(cluster: Cluster, pod: PodRow, name: str) -> set[int]:
    return set()
