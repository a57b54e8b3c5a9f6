"""Read and write the columns of an answer (`Places`, `PodCostGroup`) by name. Planner, actuator and clients may all import it.

Pods are "namespace/name". A node that does not exist yet is named by its node group: "GROUP#0" is the first new one, "GROUP#upcoming" one
that was requested before.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from trimtab.v1 import plan_pb2 as pb

UPCOMING: Final = "upcoming"
"""In place of the number: the node was requested before."""


class Place(NamedTuple):
    """A pod, the node that it leaves, "" = it is on none, and the node that it goes to."""

    pod: str
    source: str
    destination: str


def node_name(group: str, number: int | str) -> str:
    """Return the name of a node that does not exist yet. number : among the new nodes of its group, or `UPCOMING`."""
    return f"{group}#{number}"


def node_group(name: str) -> str:
    """Return the node group of a node that does not exist yet; "" = it exists."""
    return name.rpartition("#")[0]


def is_upcoming(name: str) -> bool:
    """Return whether a node was requested before and has not registered."""
    return name.endswith(f"#{UPCOMING}")


class PlaceCounts(NamedTuple):
    """Numbers of pods on existing nodes, on nodes that were requested before, and on new ones."""

    existing: int
    upcoming: int
    new: int


def count_places(places: pb.Places) -> PlaceCounts:
    """Count the pods by what kind of node they go to. O(pods)."""
    counts = [0, 0, 0]
    for node, pod_count in Counter(places.destinations).items():
        name = places.nodes[node]
        counts[0 if "#" not in name else 1 if is_upcoming(name) else 2] += pod_count
    return PlaceCounts(*counts)


def each_place(places: pb.Places) -> Iterator[Place]:
    """Yield the rows. O(pods)."""
    nodes = list(places.nodes)
    sources = places.sources or [0] * len(places.pods)
    for pod, source, destination in zip(places.pods, sources, places.destinations, strict=True):
        yield Place(pod, nodes[source], nodes[destination])


def destinations(places: pb.Places) -> dict[str, str]:
    """Return the node to which each pod goes. O(pods)."""
    nodes = list(places.nodes)
    return dict(zip(places.pods, [nodes[at] for at in places.destinations], strict=True))


def moves_by_node(places: pb.Places) -> dict[str, dict[str, str]]:
    """Return for each node that pods leave where they go. O(pods)."""
    found: dict[str, dict[str, str]] = {}
    for pod, source, destination in each_place(places):
        found.setdefault(source, {})[pod] = destination
    return found


def places_of(rows: Iterable[Place | tuple[str, str, str]]) -> pb.Places:
    """Return rows as columns. O(rows)."""
    made, index = pb.Places(), {"": 0}
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    sources = [index.setdefault(name, len(index)) for name in columns[1]]
    targets = [index.setdefault(name, len(index)) for name in columns[2]]
    made.pods.extend(columns[0])
    if any(sources):
        made.sources.extend(sources)
    made.destinations.extend(targets)
    made.nodes.extend(index if targets else ())
    return made


def on_existing(decision: pb.ScaleUpDecision) -> dict[str, str]:
    """Return the node of each pod that fits an existing one. O(pods)."""
    return {pod: node for pod, node in destinations(decision.places).items() if not node_group(node)}


def on_upcoming(decision: pb.ScaleUpDecision) -> dict[str, str]:
    """Return the node group of each pod that fits a node that was requested before. O(pods)."""
    where = destinations(decision.places)
    return {pod: node_group(node) for pod, node in where.items() if is_upcoming(node)}


def new_nodes(decision: pb.ScaleUpDecision) -> dict[str, list[list[str]]]:
    """Return for each group that grows its new nodes, in order, with the pods of each, sorted. O(pods · log pods)."""
    found: dict[str, list[list[str]]] = {
        one.node_group: [[] for _ in range(one.new_size - one.current_size)] for one in decision.splits
    }
    for pod, node in destinations(decision.places).items():
        group, _, number = node.rpartition("#")
        if group and number != UPCOMING:
            found[group][int(number)].append(pod)
    for nodes in found.values():
        for pods in nodes:
            pods.sort()
    return found


def on_new_nodes(decision: pb.ScaleUpDecision) -> dict[str, list[str]]:
    """Return for each group that grows the pods of its new nodes, sorted. O(pods · log pods)."""
    return {group: sorted(pod for pods in nodes for pod in pods) for group, nodes in new_nodes(decision).items()}


def shortfalls(decision: pb.ScaleUpDecision) -> dict[str, pb.Shortfall]:
    """Return why each pod that stays pending has no place, by pod. O(pods · log pods)."""
    found = {pod: one for one in decision.unschedulable for pod in one.pods}
    return {pod: found[pod] for pod in sorted(found)}


def costs_of(group: pb.PodCostGroup) -> dict[str, int]:
    """Return the deletion cost of each pod, in the order of removal."""
    return dict(zip(group.pods, group.costs, strict=True))


def ranks_of(column: bytes) -> Sequence[float]:
    """Return a column of `PodCostShare`."""
    return struct.unpack(f"<{len(column) // 8}d", column)
