"""Growth of balanced similar groups, in plain Python: each node goes to the smallest group."""


def grow_smallest(order: list[int], size: list[int], most: list[int], count: int) -> list[int]:
    """Return the sizes after `count` nodes; order : the groups by size.

    Nodes go in turn to the groups of the smallest size, in their order. A full group is dropped: the first in the order
    replaces it.
    """
    size, waiting = list(size), list(order)
    while count > 0 and waiting:
        level = min(size[one] for one in waiting)
        turn = [one for one in waiting if size[one] == level]
        first = 0
        for place, group in enumerate(turn):
            if size[group] >= most[group]:
                waiting[place], waiting[first] = waiting[first], waiting[place]
                first += 1
            elif count > 0:
                size[group] += 1
                count -= 1
        waiting = waiting[first:]
    return size
