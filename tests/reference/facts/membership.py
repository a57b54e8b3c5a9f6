"""Budgets by pod, pod by pod."""

from collections.abc import Mapping, Sequence


def budgets_by_pod(
    pods: Sequence[tuple[str, int]], selected: Mapping[str, Sequence[tuple[int, int]]]
) -> list[list[int]]:
    """Return the budgets of each pod, ascending.

    pods : (namespace, label set); selected : (label set, budget) by namespace.
    """
    return [sorted(row for of, row in selected.get(space, ()) if of == label_set) for space, label_set in pods]
