"""Pods placed in slots one after the other, each row's slots in a queue that goes round."""

from collections import deque

from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster


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
