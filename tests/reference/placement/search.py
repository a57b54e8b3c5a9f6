"""Pods placed one by one, with every node checked for every pod.

Whether a pod is the first of a group that has to be on one node, and how many of the group a node takes.

Which nodes admit a pod that leaves its node, by checking all predicates on a cluster without the pod.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tests.builders.random_rows import HOST
from tests.reference.predicates import resources
from tests.reference.predicates.inter_pod_affinity import incoming_matches
from tests.reference.scale_down.search.drain_sets import Loop
from tests.reference.simulation.checks import failing, fits
from tests.reference.simulation.moves import Cluster


def starts_on_one_node(cluster: Cluster, pod: int) -> bool:
    """Return whether a pod needs pods of its own kind on its node, and there is none anywhere."""
    row, spaces = cluster.pods[pod], cluster.namespaces
    terms = row.spec.pod_affinity
    if not any(term.topology_key == HOST for term in terms):
        return False
    if not all(incoming_matches(term, row, row, spaces) for term in terms):
        return False
    there = [
        cluster.nodes[at]
        for other, at in cluster.placed()
        if all(incoming_matches(t, row, other, spaces) for t in terms)
    ]
    return not any(term.topology_key in node.labels for term in terms for node in there)


def room_for(cluster: Cluster, pod: int, count: int, name: str) -> int:
    """Return how many pods like one, up to a number, a node takes by its amounts; 0 if it does not admit the first."""
    row, node, there = cluster.pods[pod], cluster.nodes[name], cluster.pods_on(name)
    if not fits(cluster, row, name):
        return 0
    return next((n for n in range(1, count) if resources.refused_beside(row, node, [*there, *[row] * n])), count)


def alike(pods: Sequence[int], row: int, kind: Sequence[int]) -> int:
    """Return how many pods from a row on are of its kind. kind : of each pod."""
    return sum(kind[pod] == kind[pods[row]] for pod in pods[row:])


class Placed(NamedTuple):
    """destination : node by requested pod, -1 = no place; hits : pods placed at their hint; stuck : the first pod
    without a place if every pod must have one, -1 = none.
    """

    destination: dict[int, int]
    hits: int
    stuck: int


def evacuate(cluster: Cluster, nodes: list[int], pods: list[int], gone: bool) -> None:
    """Close nodes and take pods off them; with `gone` the nodes leave the topology."""
    names = list(cluster.nodes)
    for node in nodes:
        cluster.cordon(names[node])
    for pod in pods:
        cluster.remove(pod)
    for node in nodes if gone else []:
        cluster.remove_from_topology(names[node])


def place_all(
    cluster: Cluster, order: list[int], hint: dict[int, int], pods: list[int], strict: bool, kind: Sequence[int]
) -> Placed:
    """Place each pod that is on no node: at its hint if that is in the order and fits, else at the first fit; the first
    of a group that has to be on one node where most of the group fit. kind : class of each pod.
    """
    names, destination, hits = list(cluster.nodes), dict[int, int](), 0
    for row, pod in enumerate(pods):
        if cluster.at[pod]:
            destination[pod] = names.index(cluster.at[pod])
            continue
        wanted = [node for node in (hint.get(pod, -1),) if node in order]
        found = [node for node in [*wanted, *order] if fits(cluster, cluster.pods[pod], names[node])]
        if found[:1] != wanted and not cluster.pods[pod].pinned and starts_on_one_node(cluster, pod):
            several = alike(pods, row, kind)
            found.sort(key=lambda node: -room_for(cluster, pod, several, names[node]))
        destination[pod] = found[0] if found else -1
        hits += bool(wanted) and found[:1] == wanted
        if found:
            cluster.place(pod, names[found[0]])
        elif strict:
            return Placed(destination, hits, pod)
    return Placed(destination, hits, -1)


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
