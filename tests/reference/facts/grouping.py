"""Pods by node, by searching for the pods of each node."""


def group_by_node(node: list[int], node_count: int) -> list[list[int]]:
    """Return the pods of each node in pod order, and last those on none."""
    rows = [[pod for pod, at in enumerate(node) if at == group] for group in range(node_count)]
    return [*rows, [pod for pod, at in enumerate(node) if at < 0]]
