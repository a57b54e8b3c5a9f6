"""Pods that a second controller claims, by checking every controller for every pod."""


def find_claims(pods: list[tuple[int, int, int]], claims: dict[int, list[int]], namespace: list[int]) -> list[int]:
    """Return for each pod (owner, label set, namespace) the first other controller that selects it, -1 = none.

    claims : controllers by label set, in order; namespace : of each controller.
    """
    found = []
    for owner, label_set, space in pods:
        others = [one for one in claims.get(label_set, []) if one != owner and namespace[one] == space]
        found.append(others[0] if others else -1)
    return found
