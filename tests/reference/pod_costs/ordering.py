"""Order within groups by Python's sort, and counting with dictionaries."""


def sort_groups(groups: list[list[int]]) -> list[list[int]]:
    """Return places within each group by key; the order of equal keys is kept."""
    return [sorted(range(len(keys)), key=keys.__getitem__) for keys in groups]


def count_in_turn(groups: list[list[int]], domains: list[list[int]]) -> list[list[float]]:
    """Return for each place of a group how many of its domain precede it, itself included; 0 without a domain."""
    found = []
    for order, domain in zip(groups, domains, strict=True):
        rank = [0.0] * len(order)
        seen: dict[int, int] = {}
        for place in order:
            if domain[place] >= 0:
                seen[domain[place]] = seen.get(domain[place], 0) + 1
                rank[place] = float(seen[domain[place]])
        found.append(rank)
    return found
