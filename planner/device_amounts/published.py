"""Which nodes lack devices that they will have, what new nodes of groups have, and nodes with amounts of devices.

A node whose drivers have not published what they publish on at least half of its group's nodes, or what the group
declares, will have more devices than it has. O(nodes).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.node_pools import NodePools, expected_drivers
from trimtab.planner.snapshot.columns import Bool, Int64, NodeColumns, Snapshot


class PublishedDevices(NamedTuple):
    """missing : bool[N], nodes whose drivers have not published what they publish on others of the group;
    expected : the profile of a new node of each group."""

    missing: Bool
    expected: tuple[int, ...]


def published_devices(sent: Snapshot, pools: NodePools, declared: Mapping[str, int]) -> PublishedDevices:
    """Return whose drivers have published. declared : profile of the new nodes of groups that declare it."""
    group = sent.nodes.group
    missing = np.zeros(len(group), np.bool_)
    expected = []
    drivers = [frozenset(one.driver for one in profile) for profile in pools.profiles]
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(sent.groups) + 1))
    for at, one in enumerate(sent.groups):
        members = order[bounds[at] : bounds[at + 1]]
        profile = declared.get(one.id, -1)
        found = np.bincount(pools.profile[members], minlength=len(pools.profiles))
        if profile < 0:
            found[0] = 0
            profile = int(found.argmax())
            wanted = expected_drivers(pools, members.tolist()) if found.any() else frozenset()
        else:
            wanted = drivers[profile]
        expected.append(profile)
        if wanted:
            lacking = [not wanted <= one for one in drivers]
            missing[members] = [lacking[at] for at in pools.profile[members].tolist()]
    return PublishedDevices(missing, tuple(expected))


def with_columns(
    sent: Snapshot,
    nodes: NodeColumns,
    resources: tuple[str, ...],
    names: Sequence[str],
    allocatable: Int64,
    capacity: Int64,
) -> NodeColumns:
    """Return nodes with amounts of further resources. allocatable, capacity : int64[N, names]."""
    place = {name: at for at, name in enumerate(resources)}
    old = [place[name] for name in sent.resources]
    new = [place[name] for name in names]
    found = []
    for before, more in ((nodes.allocatable, allocatable), (nodes.capacity, capacity)):
        out = np.zeros((len(before), len(resources)), np.int64)
        out[:, old] = before
        out[:, new] = more
        found.append(out)
    return nodes._replace(allocatable=found[0], capacity=found[1])
