"""What slices and filters of devices say, apart from claims: which devices pods compete for, and which of them can be
counted. Kept for the next snapshot, as long as none of it has changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import node_of, slices_of, template_slices
from trimtab.planner.device_amounts.groups import EligibleByFilter, filter_groups, is_exact, problems_of
from trimtab.planner.device_amounts.kind_counts import ClaimKind, KindCounts
from trimtab.planner.device_amounts.node_pools import NodePoolReader, NodePools, own_pools
from trimtab.planner.device_amounts.pod_claims import DeviceFilter, LayoutNode, PodClaims, takes_nothing
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import DeviceClass, DeviceFeatures, DeviceNode, PoolId
from trimtab.planner.model.execution import asking
from trimtab.planner.snapshot.columns import DeviceColumns, Snapshot
from trimtab.planner.snapshot.devices import no_devices


class FactInputs(NamedTuple):
    """All that facts depend on."""

    parts: tuple[Any, ...]
    """Fields of the snapshot, compared by identity."""
    filters: tuple[DeviceFilter, ...]
    idle: frozenset[DeviceFilter]
    """Of the filters, those that only claims for administration name."""


@dataclass(frozen=True)
class DeviceFacts:
    """What is known of the devices of a cluster."""

    inputs: FactInputs
    pools: NodePools
    declared: Mapping[str, int]
    """The layout of the new nodes of node groups that declare them."""
    group_of: Mapping[DeviceFilter, int]
    """Number of the filters that compete."""
    exact: frozenset[DeviceFilter]
    """Filters of which any device is as good as another."""
    problem_of: Mapping[DeviceFilter, str]
    """Why none can be allocated."""
    eligible: EligibleByFilter
    devices: DeviceColumns
    """Those of the allocator, without claims."""
    classes: Mapping[str, DeviceClass]
    features: DeviceFeatures
    declared_nodes: Mapping[int, LayoutNode]
    """A new node of each layout that a node group declares."""
    known_counts: dict[ClaimKind, KindCounts]

    @cached_property
    def allocator(self) -> DeviceAllocator:
        """The allocator, which only the claims of pods need."""
        return DeviceAllocator(slices_of(self.devices), self.classes.values(), self.features)

    @cached_property
    def own_pools(self) -> Mapping[int, tuple[PoolId, ...]]:
        """The pools of each node that has own ones."""
        return own_pools(self.pools)

    @cached_property
    def totals(self) -> list[list[int]]:
        """How many devices of each class a node of each layout has."""
        filters = [DeviceFilter(name) for name in self.classes]
        return [
            [
                sum(self.eligible.of(device_filter, pool).bits.bit_count() for pool in layout)
                for device_filter in filters
            ]
            for layout in asking(self.pools.layouts, every=1)
        ]

    def is_of(self, inputs: FactInputs) -> bool:
        """Return whether these are the facts of some inputs."""
        same = all(part is other for part, other in zip(self.inputs.parts, inputs.parts, strict=True))
        return same and self.inputs[1:] == inputs[1:]

    def is_idle(self, pod_claims: PodClaims, filters: Iterable[DeviceFilter]) -> bool:
        """Return whether claims take no devices, and get the same ones whatever others have."""
        pools = {pool for layout in self.pools.layouts for pool in layout}
        return takes_nothing(pod_claims) and all(
            self.eligible.of(device_filter, pool).is_plain for device_filter in filters for pool in pools
        )

    def is_shared(self, filters: Iterable[DeviceFilter]) -> bool:
        """Return whether several nodes reach some device."""
        return any(
            self.eligible.of(device_filter, pool).bits for device_filter in filters for pool in self.pools.shared
        )

    def new_node(self, sent: Snapshot, layout: int) -> LayoutNode:
        """Return a node of a layout, or one that will be."""
        if layout in self.declared_nodes:
            return self.declared_nodes[layout]
        node = int(np.argmax(self.pools.layout == layout))
        return LayoutNode(self.allocator, node_of(sent, node), self.own_pools.get(node, ()))


def device_facts(
    inputs: FactInputs, sent: Snapshot, classes: dict[str, DeviceClass], features: DeviceFeatures
) -> DeviceFacts:
    """Return the facts of a snapshot. O(nodes), with some microseconds for each that is not like others."""
    devices, reader = sent.devices, NodePoolReader(features)
    declared, declared_nodes = {}, {}
    for group, templates in asking(devices.templates, every=1):
        slices = template_slices(devices, templates, group)
        read = reader.read(slices, (group,), lambda _: ())
        declared[group] = int(read.layout[0])
        allocator = DeviceAllocator(slices, classes.values(), features)
        declared_nodes[declared[group]] = LayoutNode(allocator, DeviceNode(group), own_pools(read).get(0, ()))
    label_set = sent.nodes.label_set
    pools = reader.read_cluster(devices, sent.nodes.name, lambda node: sent.labels_of(int(label_set[node])))
    eligible = EligibleByFilter(classes, features, pools.tables)
    # What takes no devices competes with nobody.
    groups = filter_groups(
        [device_filter for device_filter in inputs.filters if device_filter not in inputs.idle], pools, eligible
    )
    exact = frozenset(wanted for of in groups if is_exact(of, pools, eligible) for wanted in of)
    groups += filter_groups(
        [device_filter for device_filter in inputs.filters if device_filter in inputs.idle], pools, eligible
    )
    problems = problems_of(inputs.filters, pools, eligible)
    group_of = {wanted: number for number, group in enumerate(groups) for wanted in group}
    return DeviceFacts(
        inputs, pools, declared, group_of, exact, problems, eligible, devices._replace(claims=no_devices().claims),
        classes, features, declared_nodes, {},
    )  # fmt: skip
