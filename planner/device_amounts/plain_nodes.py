"""Nodes whose slices are plain, by columns: equal ones are read once.

A slice is plain if it is the whole pool of one node, has devices only, and no rule taints its pool by name. A node is
plain if all its slices are, one for each driver: its own pools follow from the device sets of its drivers.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.snapshot.columns import Bool, DeviceColumns, Int32, Int64


class PlainNodes(NamedTuple):
    """like : int64[N], the first node with the same drivers and device sets, itself where a node has to be read;
    rows : of the slices that have to be read, ascending; row, node : int64[S], slices of plain nodes and their node,
    sorted by node and driver.
    """

    like: Int64
    rows: Int64
    row: Int64
    node: Int64


def plain_nodes(devices: DeviceColumns, names: tuple[str, ...]) -> PlainNodes | None:
    """Return which nodes need no look of their own, None = each does: some slices concern several nodes. names : of N
    nodes. O(slices log slices)."""
    slices, text = devices.slices, devices.strings
    if not (slices.node != 0).all() or (slices.counter_set >= 0).any():
        return None
    row_of = {name: at for at, name in enumerate(names)}
    distinct, of = np.unique(slices.node, return_inverse=True)
    node = np.array([row_of.get(text[at], -1) for at in distinct.tolist()], np.int64)[of]
    is_plain = np.zeros(len(names) + 1, np.bool_)
    is_plain[node] = True
    is_plain[-1] = False
    order = np.lexsort((slices.driver, node))
    again = np.flatnonzero((np.diff(node[order]) == 0) & (np.diff(slices.driver[order]) == 0))
    is_plain[node[order[again]]] = False
    is_plain[node[~_are_plain(devices)]] = False
    row = order[is_plain[node[order]]]
    like = _first_alike(len(names), node[row], slices.driver[row], slices.device_set[row])
    needed = ~is_plain[node]
    needed[row] = like[node[row]] == node[row]
    return PlainNodes(like, np.flatnonzero(needed), row, node[row])


def _are_plain(devices: DeviceColumns) -> Bool:
    """Return which slices are the whole pool of their node, and tainted like others : bool[slices]."""
    slices, text = devices.slices, devices.strings
    pool = slices.driver.astype(np.int64) * len(text) + slices.pool
    _, of, count = np.unique(pool, return_inverse=True, return_counts=True)
    tainted = {one.pool for one in devices.taint_rules if one.pool is not None}
    found: Bool = (slices.slice_count == 1) & (slices.flags == 0) & (count[of] == 1)
    if tainted:
        found &= ~np.isin(slices.pool, [at for at, name in enumerate(text) if name in tainted])
    return found


def _first_alike(nodes: int, node: Int64, driver: Int32, device_set: Int32) -> Int64:
    """Return the first node with equal slices, its own number for one without : int64[nodes]. node, driver,
    device_set : of slices, sorted by node and driver."""
    like = np.arange(nodes, dtype=np.int64)
    if not node.size:
        return like
    kind = np.zeros(nodes, np.int64)
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    place = np.arange(len(node)) - np.repeat(starts, np.diff(starts, append=len(node)))
    _, content = np.unique(driver.astype(np.int64) << 32 | (device_set + 1), return_inverse=True)
    for at in range(int(place.max()) + 1):
        there = place == at
        pair = kind[node[there]] * (int(content.max()) + 1) + content[there]
        # Kinds so far have numbers below this one's: nodes with fewer slices keep theirs.
        _, number = np.unique(pair, return_inverse=True)
        kind[node[there]] = number + int(kind.max()) + 1
    having = node[starts]
    _, first, of = np.unique(kind[having], return_index=True, return_inverse=True)
    like[having] = having[first[of]]
    return like
