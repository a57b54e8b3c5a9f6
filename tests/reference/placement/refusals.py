"""Why a new node of each group refuses each pod, with one node opened at a time."""

from tests.reference.simulation.checks import failing
from tests.reference.simulation.moves import Cluster


def refusals(cluster: Cluster, spare: str, template_nodes: list[str], pods: list[int]) -> list[list[int]]:
    """Return for each pod and template node the mask `1 << reason`, -1 without a template node ("")."""
    found: list[list[int]] = [[] for _ in pods]
    for template_node in template_nodes:
        before = cluster.mark()
        if template_node:
            cluster.open_from_template(spare, template_node)
        for row, pod in enumerate(pods):
            reasons = failing(cluster, cluster.pods[pod], spare) if template_node else set()
            found[row].append(sum(1 << int(reason) for reason in reasons) if template_node else -1)
        cluster.revert(before)
    return found
