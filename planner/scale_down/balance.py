"""Balance of similar node groups and of their zones as nodes are removed.

Decides the order in which similar groups lose nodes (the largest first, in it the largest zone) and which nodes of a
set have to stay: a group or zone loses no node if a similar one would then be larger by more than a limit. Never
decides which groups are similar (`trimtab.planner.facts.similarity`), nor whether a node can go. Nodes being deleted
count as gone.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.similarity import Parts
from trimtab.planner.scale_down.kernels.order import level_order
from trimtab.planner.snapshot.columns import Bool, Int32, Int64


class Balance(NamedTuple):
    """parts : the parts to balance; limit : the number of nodes by which similar parts may differ, 0 = no limit."""

    parts: Parts
    limit: int


def level(balance: Balance, nodes: Int32, gone: Int32) -> Int32:
    """Return nodes : int32[E], given in the preferred order, reordered to make the largest of similar groups lose nodes
    first.

    Only nodes of similar groups change places with each other. gone : int32 nodes removed before. O(E · cells).
    """
    parts = balance.parts
    taking_part = np.flatnonzero(parts.group[nodes] >= 0)
    rows = nodes[taking_part]
    group_size, zone_size = _sizes(parts, gone)
    pairs, cell = np.unique(np.stack([parts.group[rows], parts.zone[rows]]), axis=1, return_inverse=True)
    cell = cell.reshape(-1)
    starts = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=pairs.shape[1]))]).astype(np.int64)
    by_turns = np.empty(len(rows), np.int32)
    level_order(
        np.argsort(cell, kind="stable").astype(np.int32),
        starts,
        pairs[0].astype(np.int32),
        pairs[1].astype(np.int32),
        group_size,
        zone_size,
        np.zeros(pairs.shape[1], np.int64),
        by_turns,
    )
    kind = parts.group_kind[parts.group[rows]]
    ordered = nodes.copy()
    # Each kind keeps its positions in the order.
    places = taking_part[np.argsort(kind, kind="stable")]
    ordered[places] = rows[by_turns[np.argsort(kind[by_turns], kind="stable")]]
    return ordered


def uneven(balance: Balance, nodes: Int32) -> Bool:
    """Return which of nodes : int32[U], most preferred first, have to stay to keep the others within the limit.
    bool[U].

    The least preferred ones of a part stay first. O(U · parts) in the worst case.
    """
    stays = np.zeros(len(nodes), bool)
    if balance.limit == 0:
        return stays
    parts = balance.parts
    while True:
        group_size, zone_size = _sizes(parts, nodes[~stays])
        held_back = _keep_back(nodes, stays, parts.group, _lacking(parts.group_kind, group_size, balance.limit))
        held_back += _keep_back(nodes, stays, parts.zone, _lacking(parts.zone_kind, zone_size, balance.limit))
        if held_back == 0:
            return stays


def _sizes(parts: Parts, gone: Int32) -> tuple[Int64, Int64]:
    group, zone = parts.group[gone], parts.zone[gone]
    return (
        parts.group_size - np.bincount(group[group >= 0], minlength=len(parts.group_size)),
        parts.zone_size - np.bincount(zone[zone >= 0], minlength=len(parts.zone_size)),
    )


def _lacking(kind: Int32, size: Int64, limit: int) -> Int64:
    """Return by part how many nodes it lacks to be within the limit, compared with the largest of its kind. int64, <= 0
    = none.
    """
    largest = np.zeros(int(kind.max(initial=-1)) + 2, np.int64)
    np.maximum.at(largest, kind, size)
    lacking: Int64 = np.where(kind >= 0, largest[kind] - limit - size, 0)
    return lacking


def _keep_back(nodes: Int32, stays: Bool, part: Int32, lacking: Int64) -> int:
    """Mark in `stays` the least preferred nodes of each part that lacks some; return how many."""
    count = 0
    for row in np.flatnonzero(lacking > 0).tolist():
        held = np.flatnonzero((part[nodes] == row) & ~stays)[-int(lacking[row]) :]
        stays[held] = True
        count += len(held)
    return count
