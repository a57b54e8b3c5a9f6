"""Order within groups by Python's sort, and counting with dictionaries."""


def sort_groups(groups: list[list[int]]) -> list[list[int]]:
    """Places within each group by key, equal keys in their order."""
    return [sorted(range(len(keys)), key=keys.__getitem__) for keys in groups]


def count_in_turn(groups: list[list[int]], domains: list[list[int]]) -> list[list[float]]:
    """For each place of a group how many of its domain have come so far, itself included; 0 outside of domains."""
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
