"""Which placeholders stay and where the others go, in plain Python: every choice and every node is checked."""

from itertools import groupby, product

from tests.reference.simulation.checks import fits
from tests.reference.simulation.moves import Cluster


def kept(free: list[int], sizes: list[tuple[int, list[int]]]) -> list[bool]:
    """Return which placeholders of one node stay. free : by resource; sizes : (class, request by resource) of each."""
    runs = [list(rows) for _, rows in groupby(range(len(sizes)), key=lambda row: sizes[row][0])]
    best: tuple[int, ...] | None = None
    for choice in product(*(range(len(rows), -1, -1) for rows in runs)):
        chosen = [row for rows, number in zip(runs, choice, strict=True) for row in rows[:number]]
        if has_room(free, [sizes[row][1] for row in chosen]) and (best is None or sum(choice) > sum(best)):
            best = choice
    stays = {row for rows, number in zip(runs, best or (0,) * len(runs), strict=True) for row in rows[:number]}
    return [row in stays for row in range(len(sizes))]


def first_ones(free: list[int], sizes: list[tuple[int, list[int]]]) -> list[bool]:
    """Return which stay if there are too many choices: one by one, each together with those kept before it."""
    stays: list[bool] = []
    for row, (_, request) in enumerate(sizes):
        others = [sizes[other][1] for other in range(row) if stays[other]]
        enough = all(
            amount == 0 or amount + sum(other[r] for other in others) <= free[r] for r, amount in enumerate(request)
        )
        stays.append(enough)
    return stays


def has_room(free: list[int], requests: list[list[int]]) -> bool:
    """Return whether requests fit together; a resource that none requests is ignored."""
    totals = [sum(request[r] for request in requests) for r in range(len(free))]
    return all(total == 0 or total <= room for total, room in zip(totals, free, strict=True))


def place_placeholders(
    cluster: Cluster, sets: list[list[int]], hints: dict[int, str], order: list[str], alone: set[int]
) -> list[int]:
    """Place the pods of each set at their hints, then on the first node that fits; return the number of nodes that each
    set has tried. order :

    names of the usable nodes; alone : pods for which only the node matters.
    """
    for pods in sets:
        for pod in pods:
            if hints.get(pod) in order and fits(cluster, cluster.pods[pod], hints[pod]):
                cluster.place(pod, hints[pod])
    return [_search(cluster, [pod for pod in pods if not cluster.at[pod]], order, alone) for pods in sets]


def _search(cluster: Cluster, pods: list[int], order: list[str], alone: set[int]) -> int:
    tried = at = 0
    for pod in pods:
        # If only the node matters to a set, the nodes that the search has passed stay full.
        waiting = order[at:] if pod in alone else order[at:] + order[:at]
        found = next((n for n, node in enumerate(waiting) if fits(cluster, cluster.pods[pod], node)), None)
        tried += len(waiting) if found is None else found + 1
        if found is None:
            break
        cluster.place(pod, waiting[found])
        at = at + found if pod in alone else (at + found + 1) % len(order)
    return tried
