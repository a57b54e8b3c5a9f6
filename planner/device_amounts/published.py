"""Which nodes lack devices that they will have, what new nodes of groups have, and nodes with amounts of devices.

A node whose drivers have not published what they publish on at least half of its group's nodes, or what the group
declares, will have more devices than it has. O(nodes).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.competing_claims import PLENTY
from trimtab.planner.device_amounts.node_pools import NodePools
from trimtab.planner.device_amounts.pod_claims import DeviceFilter
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, NodeColumns, Snapshot


class PublishedDevices(NamedTuple):
    """missing : bool[N], nodes whose drivers have not published what they publish on others of the group;
    expected : the layout of a new node of each group."""

    missing: Bool
    expected: tuple[int, ...]

    def of_templates(self, sent: Snapshot) -> Int64:
        """Return the layout of new nodes by row of the templates : int64[T]."""
        layouts = np.zeros(len(sent.templates.label_set), np.int64)
        for group, layout in zip(sent.groups, self.expected, strict=True):
            if group.template >= 0:
                layouts[group.template] = layout
        return layouts


def published_devices(sent: Snapshot, pools: NodePools, declared: Mapping[str, int]) -> PublishedDevices:
    """Return whose drivers have published. declared : layout of the new nodes of groups that declare it."""
    group = sent.nodes.group
    missing = np.zeros(len(group), np.bool_)
    expected = []
    drivers = [frozenset(pool.driver for pool in layout) for layout in pools.layouts]
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(sent.groups) + 1))
    for at, group_row in enumerate(sent.groups):
        members = order[bounds[at] : bounds[at + 1]]
        layout = declared.get(group_row.id, -1)
        if layout >= 0:
            wanted = drivers[layout]
        else:
            count = np.bincount(pools.layout[members], minlength=len(drivers))
            having: Counter[str] = Counter()
            for of, nodes in zip(drivers, count.tolist(), strict=True):
                having.update(dict.fromkeys(of, nodes))
            wanted = frozenset(driver for driver, nodes in having.items() if nodes and 2 * nodes >= len(members))
            count[0] = 0
            layout = int(count.argmax())
        expected.append(layout)
        if wanted:
            missing[members] = np.array([not wanted <= of for of in drivers])[pools.layout[members]]
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
    columns = []
    for before, more in ((nodes.allocatable, allocatable), (nodes.capacity, capacity)):
        out = np.zeros((len(before), len(resources)), np.int64)
        out[:, old] = before
        out[:, new] = more
        columns.append(out)
    return nodes._replace(allocatable=columns[0], capacity=columns[1])


def add_plugins(
    snapshot: Snapshot,
    requested: Mapping[DeviceFilter, tuple[str, ...]],
    columns: Mapping[str, Int64],
    layouts: tuple[Int32 | Int64, Int64],
) -> None:
    """Write what nodes and templates have of extended resources that some have from a device plugin and others by
    devices: each has as much as it can serve, and those with a plugin have plenty of the devices. requested : the
    columns of each filter; columns : amounts of each layout; layouts : of the nodes and of the templates.
    """
    place = {name: at for at, name in enumerate(snapshot.resources)}
    for device_filter, names in requested.items():
        if not device_filter.beside_plugins:
            continue
        resource = place[device_filter.beside_plugins]
        for nodes, of in zip((snapshot.nodes, snapshot.templates), layouts, strict=True):
            by_plugin = nodes.allocatable[:, resource] > 0
            devices = columns[names[0]][of]
            for amounts in (nodes.allocatable, nodes.capacity):
                amounts[~by_plugin, resource] = devices[~by_plugin]
                for name in names:
                    amounts[by_plugin & (columns[name][of] == 0), place[name]] = PLENTY
