"""Check that a plan of new nodes meets all requirements of its problem, from problem and plan alone."""

from typing import Any

import numpy as np


def offences(asked: Any, plan: Any) -> list[str]:
    """Yield what is wrong with the plan; nothing if it holds."""
    found = []
    planned, in_zone = np.zeros(len(asked.pods), int), np.zeros(asked.zone_most.shape, int)
    nodes_of = np.zeros(len(asked.capacity), int)
    for at, (group, nodes) in enumerate(zip(plan.group, plan.nodes, strict=True)):
        entries = slice(plan.offsets[at], plan.offsets[at + 1])
        fill = np.zeros(len(asked.pods), int)
        np.add.at(fill, plan.classes[entries], plan.pods[entries])
        if nodes <= 0 or (plan.pods[entries] <= 0).any() or not fill.any():
            found.append(f"batch {at} has {nodes} nodes, with {fill.sum()} pods each")
        if (fill @ asked.demand > asked.capacity[group]).any():
            found.append(f"batch {at} takes more than a node of group {group} has")
        if fill[~asked.allowed[:, group]].any():
            found.append(f"batch {at} has pods that group {group} does not take")
        if (fill > asked.per_node).any():
            found.append(f"batch {at} has more pods of a class than a node takes")
        planned += fill * nodes
        nodes_of[group] += nodes
        if 0 <= asked.zone[group] < in_zone.shape[1]:
            in_zone[:, asked.zone[group]] += fill * nodes
    if (in_zone > asked.zone_most).any():
        found.append("a zone has more pods of a class than it may have")
    if (nodes_of > asked.max_nodes).any():
        found.append("a group has more nodes than it may have")
    if (planned + plan.unplaced != asked.pods).any() or (plan.unplaced < 0).any():
        found.append("pods planned and pods left are not the pods asked for")
    if not np.isclose(plan.price, np.nansum(asked.price * nodes_of)):
        found.append(f"price {plan.price} is not that of the nodes")
    return found
