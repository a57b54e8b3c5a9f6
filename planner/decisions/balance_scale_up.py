"""Answer BalanceScaleUp: split new nodes over the node groups of a request, independent of any cluster. The order of
groups in the request has no effect: ties in size are broken by id.
Raises RequestError.
"""

from typing import NoReturn

import numpy as np

from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.scale_up.balance import split
from trimtab.v1 import plan_pb2, planner_pb2


def balance_scale_up(request: planner_pb2.BalanceScaleUpRequest) -> planner_pb2.BalanceScaleUpResponse:
    """Return the node groups that grow, sorted by id. O(groups²) in the worst case; about 1 µs a group is reading and
    writing the messages.
    """
    if request.new_nodes < 0:
        raise RequestError("new_nodes", f"{request.new_nodes} is negative; give the number of nodes to add")
    # By code points, which is the order of the bytes, too.
    groups = sorted(request.node_groups, key=lambda group: group.node_group)
    ids = [group.node_group for group in groups]
    size = np.array([group.current_size for group in groups], np.int64)
    max_size = np.array([group.max_size for group in groups], np.int64)
    if not ids or not ids[0] or len(set(ids)) < len(ids) or (size < 0).any() or (size > max_size).any():
        _refuse(request)
    grown = size + split(size, max_size, request.new_nodes)
    rows = zip(ids, size.tolist(), grown.tolist(), max_size.tolist(), strict=True)
    return planner_pb2.BalanceScaleUpResponse(
        splits=[
            plan_pb2.ScaleUpSplit(node_group=group, current_size=before, new_size=after, max_size=largest)
            for group, before, after, largest in rows
            if after > before
        ]
    )


def _refuse(request: planner_pb2.BalanceScaleUpRequest) -> NoReturn:
    """Raise an error that names what cannot be split."""
    if not request.node_groups:
        raise RequestError("node_groups", "there is none; give the node groups to split over")
    first_row: dict[str, int] = {}
    for i, node_group in enumerate(request.node_groups):
        path, name, size = f"node_groups[{i}]", node_group.node_group, node_group.current_size
        if not name:
            raise RequestError(f"{path}.node_group", "it is empty; give the id of the node group")
        if first_row.setdefault(name, i) != i:
            problem = f"{name!r} is also node_groups[{first_row[name]}]; give each node group once"
            raise RequestError(f"{path}.node_group", problem)
        if size < 0:
            problem = f"{size} of {name!r} is negative; give the number of its nodes"
            raise RequestError(f"{path}.current_size", problem)
        if size > node_group.max_size:
            problem = f"{size} of {name!r} is above its max_size {node_group.max_size}; leave out groups above theirs"
            raise RequestError(f"{path}.current_size", problem)
    raise AssertionError("the request can be split")
