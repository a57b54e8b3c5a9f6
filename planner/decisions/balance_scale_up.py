"""Answer BalanceScaleUp: split new nodes over the node groups of a request, whatever the cluster is like.

The order of the groups in the request changes nothing: of groups of one size, the first by id comes first.
Raises RequestError.
"""

from operator import attrgetter
from typing import Final

import numpy as np
from trimtab.v1 import planner_pb2

from planner.decisions.requests import RequestError
from planner.scale_up.balance import split

_Row = tuple[str, int, int]
_ROW: Final = attrgetter("node_group", "current_size", "max_size")


def balance_scale_up(request: planner_pb2.BalanceScaleUpRequest) -> planner_pb2.BalanceScaleUpResponse:
    """Return the node groups that grow, sorted by id. O(groups²) in the worst case."""
    rows = list(map(_ROW, request.node_groups))
    if request.new_nodes < 0:
        raise RequestError("new_nodes", f"{request.new_nodes} is negative; give the number of nodes to add")
    sizes = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
    ids = {row[0] for row in rows}
    if len(ids) < len(rows) or not ids or "" in ids:
        _refuse_ids(rows)
    if (sizes[:, 0] < 0).any() or (sizes[:, 0] > sizes[:, 1]).any():
        _refuse_sizes(rows)
    order = np.array(sorted(range(len(rows)), key=rows.__getitem__), np.int64)
    size, most = np.ascontiguousarray(sizes[order].T)
    added = split(size, most, request.new_nodes)
    answer = planner_pb2.BalanceScaleUpResponse()
    add = answer.splits.add
    grows = added > 0
    for row, new_size in zip(order[grows].tolist(), (size + added)[grows].tolist(), strict=True):
        one = add()
        one.node_group, one.current_size, one.max_size = rows[row]
        one.new_size = new_size
    return answer


def _refuse_ids(rows: list[_Row]) -> None:
    if not rows:
        raise RequestError("node_groups", "there is none; give the node groups to split over")
    seen: dict[str, int] = {}
    for i, (name, _, _) in enumerate(rows):
        path = f"node_groups[{i}].node_group"
        if not name:
            raise RequestError(path, "it is empty; give the id of the node group")
        if seen.setdefault(name, i) != i:
            raise RequestError(path, f"{name!r} is also node_groups[{seen[name]}]; give each node group once")


def _refuse_sizes(rows: list[_Row]) -> None:
    for i, (name, size, most) in enumerate(rows):
        path = f"node_groups[{i}].current_size"
        if size < 0:
            raise RequestError(path, f"{size} of {name!r} is negative; give the number of its nodes")
        if size > most:
            raise RequestError(path, f"{size} of {name!r} is above its max_size {most}; leave out groups above theirs")
