"""Budgets by pod, pod by pod; pods by node, by searching for the pods of each node."""

from collections.abc import Mapping, Sequence


def group_by_node(node: list[int], node_count: int) -> list[list[int]]:
    """Return the pods of each node in pod order, and last those on none."""
    rows = [[pod for pod, at in enumerate(node) if at == group] for group in range(node_count)]
    return [*rows, [pod for pod, at in enumerate(node) if at < 0]]


def budgets_by_pod(
    pods: Sequence[tuple[str, int]], selected: Mapping[str, Sequence[tuple[int, int]]]
) -> list[list[int]]:
    """Return the budgets of each pod, ascending.

    pods : (namespace, label set); selected : (label set, budget) by namespace.
    """
    return [sorted(row for of, row in selected.get(space, ()) if of == label_set) for space, label_set in pods]
