"""Answer BalanceScaleUp: split new nodes over the node groups of a request, independent of any cluster. The order of
groups in the request has no effect: ties in size are broken by id.
Raises RequestError.
"""

from typing import NamedTuple, NoReturn

import numpy as np

from trimtab.planner.decisions.kernels.balance_scale_up import (
    FIRST,
    LAST,
    MOST,
    SIZE,
    ids_ascend,
    read_groups,
    write_splits,
)
from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.scale_up.balance import split
from trimtab.planner.snapshot.columns import Int64, UInt8
from trimtab.v1 import planner_pb2

_MOST_BYTES_BESIDES_ID = 32
"""Largest size of a split besides its id: two lengths, four fields, three numbers."""


class _ParsedRequest(NamedTuple):
    """A request as numbers. data : its bytes; groups : int64[A, 4], see `read_groups`."""

    data: UInt8
    groups: Int64


def balance_scale_up(request: planner_pb2.BalanceScaleUpRequest) -> planner_pb2.BalanceScaleUpResponse:
    """Return the node groups that grow, sorted by id. O(groups²) in the worst case."""
    if request.new_nodes < 0:
        raise RequestError("new_nodes", f"{request.new_nodes} is negative; give the number of nodes to add")
    parsed = _read(request)
    order = _order(parsed)
    size, most = (np.ascontiguousarray(parsed.groups[order, column]) for column in (SIZE, MOST))
    lengths = parsed.groups[:, LAST] - parsed.groups[:, FIRST]
    if not len(order) or (lengths == 0).any() or (size < 0).any() or (size > most).any():
        _refuse(request)
    if not ids_ascend(parsed.data, parsed.groups, order):
        _refuse(request)
    grown = size + split(size, most, request.new_nodes)
    grows = grown > size
    out = np.empty(int(lengths.sum()) + len(order) * _MOST_BYTES_BESIDES_ID, np.uint8)
    used = write_splits(parsed.data, parsed.groups, order[grows], grown[grows], out)
    return planner_pb2.BalanceScaleUpResponse.FromString(out[:used].tobytes())


def _read(request: planner_pb2.BalanceScaleUpRequest) -> _ParsedRequest:
    groups = np.empty((len(request.node_groups), 4), np.int64)
    data = np.frombuffer(bytearray(request.SerializeToString()), np.uint8)
    if not read_groups(data, groups):
        known = planner_pb2.BalanceScaleUpRequest()
        known.CopyFrom(request)
        known.DiscardUnknownFields()
        return _read(known)
    return _ParsedRequest(data, groups)


def _order(parsed: _ParsedRequest) -> Int64:
    """Return the groups by id, bytewise. int64[A]."""
    order = np.arange(len(parsed.groups), dtype=np.int64)
    if ids_ascend(parsed.data, parsed.groups, order):
        return order
    data = parsed.data.tobytes()
    ids = [data[first:last] for first, last in parsed.groups[:, : LAST + 1].tolist()]
    return np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)


def _refuse(request: planner_pb2.BalanceScaleUpRequest) -> NoReturn:
    """Raise an error that names what cannot be split."""
    if not request.node_groups:
        raise RequestError("node_groups", "there is none; give the node groups to split over")
    seen: dict[str, int] = {}
    for i, one in enumerate(request.node_groups):
        path, name, size = f"node_groups[{i}]", one.node_group, one.current_size
        if not name:
            raise RequestError(f"{path}.node_group", "it is empty; give the id of the node group")
        if seen.setdefault(name, i) != i:
            problem = f"{name!r} is also node_groups[{seen[name]}]; give each node group once"
            raise RequestError(f"{path}.node_group", problem)
        if size < 0:
            problem = f"{size} of {name!r} is negative; give the number of its nodes"
            raise RequestError(f"{path}.current_size", problem)
        if size > one.max_size:
            problem = f"{size} of {name!r} is above its max_size {one.max_size}; leave out groups above theirs"
            raise RequestError(f"{path}.current_size", problem)
    raise AssertionError("the request can be split")
