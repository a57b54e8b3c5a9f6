"""Who grows when similar groups are kept even, in plain Python: one node after the other to the smallest group."""


def grow_smallest(order: list[int], size: list[int], most: list[int], count: int) -> list[int]:
    """The sizes after `count` nodes; order : the groups by size.

    A turn goes through the groups that are as small as the smallest, in their order. A full one is taken out: the first
    in the order takes its place.
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
