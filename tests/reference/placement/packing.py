"""First fit onto new nodes: each pod is tried on every node opened so far, then on a new one of each group.

Why a new node of each group refuses each pod, with one node opened at a time.

Pods placed in slots one after the other, each row's slots in a queue that goes round.
"""

from collections import deque
from collections.abc import Sequence

from tests.reference.placement.search import alike, room_for, starts_on_one_node
from tests.reference.simulation.checks import failing, fits
from tests.reference.simulation.moves import Cluster


def pack(
    cluster: Cluster,
    pods: list[int],
    spare_nodes: list[str],
    groups: list[tuple[str, int, int]],
    bounds: tuple[int, Sequence[int]],
) -> tuple[list[int], list[int]]:
    """Return the new node of each pod, -1 = none, and the group of each new node; the pods stay where they are placed.

    groups : (name of a node like its new ones, number of nodes, how many more are allowed); bounds : most new nodes,
    and the class of each pod.
    """
    most_nodes, kind = bounds
    found: list[int] = []
    group_of: list[int] = []
    for row, pod in enumerate(pods):
        if starts_on_one_node(cluster, pod):
            first = pod, alike(pods, row, kind)
            found.append(_first_of_group(cluster, first, spare_nodes[:most_nodes], groups, group_of))
            continue
        at = next((n for n in range(len(group_of)) if fits(cluster, cluster.pods[pod], spare_nodes[n])), -1)
        if at < 0 and len(group_of) < min(most_nodes, len(spare_nodes)):
            grown = _new_node_for(cluster, pod, spare_nodes[len(group_of)], groups, group_of)
            if grown >= 0:
                group_of.append(grown)
                at = len(group_of) - 1
        if at >= 0:
            cluster.place(pod, spare_nodes[at])
        found.append(at)
    return found, group_of


def _first_of_group(
    cluster: Cluster,
    first: tuple[int, int],
    spare_nodes: list[str],
    groups: list[tuple[str, int, int]],
    group_of: list[int],
) -> int:
    """Place the first of a group on the node that takes most of it, a new one if that takes more.

    first : the pod, and the number of pods like it.
    """
    rooms = [room_for(cluster, *first, spare_nodes[at]) for at in range(len(group_of))]
    best, grown = max(rooms, default=0), -1
    if len(group_of) < len(spare_nodes):
        for q in sorted(range(len(groups)), key=lambda q: (groups[q][1] + group_of.count(q), q)):
            if best < first[1] and group_of.count(q) < groups[q][2]:
                before = cluster.mark()
                cluster.open_from_template(spare_nodes[len(group_of)], groups[q][0])
                room = room_for(cluster, *first, spare_nodes[len(group_of)])
                cluster.revert(before)
                best, grown = (room, q) if room > best else (best, grown)
    if not best:
        return -1
    at = rooms.index(best) if grown < 0 else len(group_of)
    if grown >= 0:
        cluster.open_from_template(spare_nodes[at], groups[grown][0])
        group_of.append(grown)
    cluster.place(first[0], spare_nodes[at])
    return at


def _new_node_for(
    cluster: Cluster, pod: int, blank: str, groups: list[tuple[str, int, int]], group_of: list[int]
) -> int:
    """Open a new node of the smallest group whose nodes the pod fits; return that group, -1 = none."""
    order = sorted(range(len(groups)), key=lambda q: (groups[q][1] + group_of.count(q), q))
    for q in order:
        if group_of.count(q) >= groups[q][2]:
            continue
        before = cluster.mark()
        cluster.open_from_template(blank, groups[q][0])
        if fits(cluster, cluster.pods[pod], blank):
            return q
        cluster.revert(before)
    return -1


def place_on_new(
    cluster: Cluster, pods: list[int], node_of: list[int], spare_nodes: list[str], template_node_of: list[str]
) -> list[str]:
    """Open the nodes as pods reach them and place those that fit; return the node of each pod, "" = none."""
    opened, placed_on = 0, []
    for pod, at in zip(pods, node_of, strict=True):
        while opened <= at:
            cluster.open_from_template(spare_nodes[opened], template_node_of[opened])
            opened += 1
        fitting = at >= 0 and not cluster.at[pod] and fits(cluster, cluster.pods[pod], spare_nodes[at])
        if fitting:
            cluster.place(pod, spare_nodes[at])
        placed_on.append(spare_nodes[at] if fitting else "")
    for node, template_node in list(zip(spare_nodes, template_node_of, strict=False))[opened:]:
        cluster.open_from_template(node, template_node)
    return placed_on


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


def place_in_slots(
    cluster: Cluster, slots: list[tuple[str, int, int]], pods: list[tuple[int, int]], most_tries: int
) -> list[int]:
    """Place pods where they fit; return those placed. slots : (node, row, room); pods : (pod, row)."""
    queues: dict[int, deque[list]] = {}
    for node, row, room in slots:
        queues.setdefault(row, deque()).append([node, room])
    placed = []
    for pod, row in pods:
        queue = queues.get(row, deque())
        if cluster.at[pod] or not queue:
            continue
        for _ in range(min(most_tries, len(queue))):
            slot = queue.popleft()
            found = fits(cluster, cluster.pods[pod], slot[0])
            if found:
                cluster.place(pod, slot[0])
                placed.append(pod)
                slot[1] -= 1
            if slot[1]:
                queue.append(slot)
            if found:
                break
    return placed
