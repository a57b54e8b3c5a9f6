"""Order within groups by Python's sort, and counting with dictionaries.

Pods that a second controller claims, by checking every controller for every pod.

Groups that have changed, by comparing lists.
"""

from typing import NamedTuple


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


def find_claims(pods: list[tuple[int, int, int]], claims: dict[int, list[int]], namespace: list[int]) -> list[int]:
    """Return for each pod (owner, label set, namespace) the first other controller that selects it, -1 = none.

    claims : controllers by label set, in order; namespace : of each controller.
    """
    found = []
    for owner, label_set, space in pods:
        others = [one for one in claims.get(label_set, []) if one != owner and namespace[one] == space]
        found.append(others[0] if others else -1)
    return found


class ComparedPod(NamedTuple):
    """The compared fields of a pod."""

    namespace: int
    name: str
    node: int
    spec: int
    created_s: int
    values: tuple[int, ...]


def differing(now: list[list[ComparedPod]], before: list[list[ComparedPod]], place: list[int]) -> list[bool]:
    """Return for each group whether its pods differ from those of the group at its earlier place, -1 = none."""
    return [at < 0 or group != before[at] for group, at in zip(now, place, strict=True)]
