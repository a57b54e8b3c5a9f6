"""The device objects of a snapshot as values of the allocator: slices with the taints of rules, classes, features,
nodes, devices in use.

Device sets are the same objects wherever they are equal, so that what is known of one is known of all. O(slices).
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.devices.model import (
    LATEST_MINOR,
    AllocatedDevice,
    DeviceClass,
    DeviceFeatures,
    DeviceId,
    DeviceNode,
    DeviceSet,
    DeviceSlice,
    NodeSelection,
)
from trimtab.planner.devices.taint_rules import with_taint_rules
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.values import CLASS_RESOURCE
from trimtab.planner.snapshot.columns import (
    ADMIN_ACCESS,
    ALL_NODES,
    ALLOCATED,
    PER_DEVICE,
    SHARE,
    ClassOfDevices,
    DeviceColumns,
    Int64,
    Snapshot,
    TemplateSlice,
)

_SLICE_BYTES: Final = 700
_GATES: Final = {
    "DRAAdminAccess": ("admin_access", 34),
    "DRAPrioritizedList": ("prioritized_list", 34),
    "DRAPartitionableDevices": ("partitionable_devices", 36),
    "DRADeviceTaints": ("device_taints", 36),
    "DRAConsumableCapacity": ("consumable_capacity", 36),
    "DRADeviceBindingConditions": ("binding_conditions", 36),
}
"""The field of each feature gate, and the minor version from which on it is on by default."""
_TAINT_RULES: Final = ("DRADeviceTaintRules", 0)
"""Rules count wherever there are any: before 1.37 the API server has the kind only if the gate is on."""


def features_of(devices: DeviceColumns) -> DeviceFeatures:
    """Return what the cluster's scheduler can do."""
    minor = _minor(devices)
    fields = {field: _is_on(devices, gate, first) for gate, (field, first) in _GATES.items()}
    return DeviceFeatures(version=minor, **fields)


def _minor(devices: DeviceColumns) -> int:
    return devices.kubernetes_minor or LATEST_MINOR


def _is_on(devices: DeviceColumns, gate: str, first: int) -> bool:
    gates = dict(text.partition("=")[::2] for text in devices.feature_gates)
    return gates.get(gate, "true" if _minor(devices) >= first else "false").lower() == "true"


def slices_of(devices: DeviceColumns, rows: Int64 | None = None) -> tuple[DeviceSlice, ...]:
    """Return the slices with the taints of rules, in the order of their names. rows : of those wanted, None = all."""
    columns, text = devices.slices, devices.strings
    if rows is None:
        rows = np.arange(len(columns.driver))
    fields = zip(
        rows.tolist(),
        *(
            column[rows].tolist()
            for column in (
                columns.driver, columns.pool, columns.generation, columns.slice_count, columns.node, columns.selector,
                columns.flags, columns.device_set, columns.counter_set,
            )
        ),
        strict=True,
    )  # fmt: skip
    nothing = DeviceSet()
    reserve_memory(_SLICE_BYTES * len(rows), "slices of devices")
    slices = [
        DeviceSlice(
            columns.name.get(at),
            text[driver],
            text[pool],
            generation,
            count,
            NodeSelection(
                text[node], bool(flags & ALL_NODES), devices.node_selectors[selector] if selector >= 0 else None
            ),
            bool(flags & PER_DEVICE),
            devices.device_sets[device_set] if device_set >= 0 else nothing,
            devices.counter_sets[counters] if counters >= 0 else (),
        )
        for at, driver, pool, generation, count, node, selector, flags, device_set, counters in asking(fields)
    ]
    return _tainted(devices, slices)


def template_slices(devices: DeviceColumns, slices: tuple[TemplateSlice, ...], node: str) -> tuple[DeviceSlice, ...]:
    """Return the declared slices of a new node. node : its name."""
    count_of: dict[tuple[str, str], int] = {}
    for template in slices:
        count_of[template.driver, template.pool] = count_of.get((template.driver, template.pool), 0) + 1
    reserve_memory(_SLICE_BYTES * len(slices), "slices of new nodes")
    device_slices = [
        DeviceSlice(
            f"{node}-{at}",
            template.driver,
            f"{template.pool}-{node}" if template.pool else node,
            1,
            count_of[template.driver, template.pool],
            NodeSelection(node),
            template.per_device_nodes,
            template.devices,
            template.counter_sets,
        )
        for at, template in enumerate(asking(slices))
    ]
    return _tainted(devices, device_slices)


def _tainted(devices: DeviceColumns, slices: list[DeviceSlice]) -> tuple[DeviceSlice, ...]:
    if not devices.taint_rules or not _is_on(devices, *_TAINT_RULES):
        return tuple(slices)
    return with_taint_rules(slices, devices.taint_rules)


def classes_of(devices: DeviceColumns) -> dict[str, DeviceClass]:
    """Return the classes by name."""
    return {
        device_class.name: DeviceClass(device_class.name, device_class.selectors) for device_class in devices.classes
    }


def class_by_resource(devices: DeviceColumns) -> dict[str, str]:
    """Return the class that provides each extended resource: the newest, among equals the first by name."""
    newest: dict[str, ClassOfDevices] = {}
    for device_class in devices.classes:
        if device_class.extended_resource:
            other = newest.get(device_class.extended_resource)
            if other is None or (-device_class.created_s, device_class.name) < (-other.created_s, other.name):
                newest[device_class.extended_resource] = device_class
    implicit = {resource_of_class(device_class.name): device_class.name for device_class in devices.classes}
    return implicit | {resource: device_class.name for resource, device_class in newest.items()}


def resource_of_class(name: str) -> str:
    """Return the extended resource that a class always provides."""
    return f"{CLASS_RESOURCE}{name}"


class ExtendedResources(NamedTuple):
    """Extended resources that devices satisfy. class_of : the class of each; beside_plugins : those that some node or
    template offers by itself, as from a device plugin; devices satisfy them on the others."""

    class_of: dict[str, str]
    beside_plugins: frozenset[str]


def extended_resources(snapshot: Snapshot) -> ExtendedResources:
    """Return the extended resources that devices satisfy."""
    devices, by_plugins = snapshot.devices, snapshot.nodes.allocatable.any(axis=0)
    by_plugins |= snapshot.templates.allocatable.any(axis=0)
    plugins = frozenset(np.array(snapshot.resources)[by_plugins].tolist())
    has_devices = len(devices.slices.driver) or devices.templates
    class_of = {name: of for name, of in class_by_resource(devices).items() if has_devices or name not in plugins}
    return ExtendedResources(class_of, plugins & class_of.keys())


def node_of(snapshot: Snapshot, node: int) -> DeviceNode:
    """Return a node of the snapshot, by its row."""
    return DeviceNode(snapshot.nodes.name[node], snapshot.labels_of(int(snapshot.nodes.label_set[node])))


def named_claims(devices: DeviceColumns) -> dict[tuple[str, str], int]:
    """Return the rows of the claims that belong to no pod, by namespace and name."""
    claims = devices.claims
    rows = np.flatnonzero(np.diff(claims.pod.offsets) == 0).tolist()
    return {(devices.strings[claims.namespace[row]], claims.name.get(row)): row for row in rows}


def results_in_use(devices: DeviceColumns) -> Int64:
    """Return the rows of results whose devices are in use: of claims that are allocated, without admin access."""
    claims = devices.claims
    is_allocated = (claims.flags[claims.result_claim] & ALLOCATED) != 0
    return np.flatnonzero(is_allocated & ((claims.result_flags & ADMIN_ACCESS) == 0))


def shares_in_use(devices: DeviceColumns, rows: Int64) -> dict[int, tuple[bool, tuple[tuple[str, int], ...]]]:
    """Return which of some results are shares of their device, and what of its capacity they consume, by index in
    `rows`; those that have all of it and consume none are left out. Where the scheduler knows no shares, a share is its
    whole device."""
    claims, text, shares = devices.claims, devices.strings, {}
    is_share = ((claims.result_flags & SHARE) != 0)[rows] & features_of(devices).consumable_capacity
    first, last = np.searchsorted(claims.capacity_result, [rows, rows + 1])
    for at in np.flatnonzero(is_share | (first < last)).tolist():
        consumed = sorted(
            (text[claims.capacity_name[row]], devices.quantities[claims.capacity_amount[row]])
            for row in range(first[at], last[at])
        )
        shares[at] = bool(is_share[at]), tuple(consumed)
    return shares


def allocated_devices(devices: DeviceColumns) -> Iterator[tuple[int, AllocatedDevice]]:
    """Yield the devices of claims that are allocated, with the row of the claim. O(results)."""
    claims, text = devices.claims, devices.strings
    results = np.flatnonzero((claims.flags[claims.result_claim] & ALLOCATED) != 0)
    shares = shares_in_use(devices, results)
    columns = (
        claims.result_claim, claims.result_driver, claims.result_pool, claims.result_device, claims.result_request,
        claims.result_flags,
    )  # fmt: skip
    rows = zip(*(column[results].tolist() for column in columns), strict=True)
    for at, (claim, driver, pool, device, request, flags) in enumerate(rows):
        id = DeviceId(text[driver], text[pool], text[device])
        yield claim, AllocatedDevice(text[request], id, bool(flags & ADMIN_ACCESS), *shares.get(at, ()))
