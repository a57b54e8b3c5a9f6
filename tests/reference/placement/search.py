"""Pods placed one by one, with every node checked for every pod."""

from collections.abc import Sequence
from typing import NamedTuple

from tests.reference.placement.first_of_group import alike, room_for, starts_on_one_node
from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster


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
