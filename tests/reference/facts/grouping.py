"""Pods by node, by looking for the pods of each node in turn."""


def group_by_node(node: list[int], node_count: int) -> list[list[int]]:
    """Pods of each node in pod order, and last those on none."""
    rows = [[pod for pod, at in enumerate(node) if at == group] for group in range(node_count)]
    return [*rows, [pod for pod, at in enumerate(node) if at < 0]]
