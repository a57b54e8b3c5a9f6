"""Slices of devices as rows with distinct lists of devices, counters and node selectors beside them.

Decides which slices are left out: those that the API server would refuse. Their pool is then incomplete, so nothing is
allocated from it. Rows are kept from one snapshot to the next while a slice's object is the same.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from trimtab.common.kubernetes.kinds.devices import (
    CounterConsumption,
    DeviceCounterSet,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
    SliceAttribute,
    SliceCapacity,
    SliceDevice,
    SliceTaint,
)
from trimtab.common.kubernetes.kinds.metadata import NodeSelector
from trimtab.common.kubernetes.object_errors import FieldError, below
from trimtab.common.kubernetes.selectors import node_selector_terms
from trimtab.common.objects.devices.claim_specs import quantities
from trimtab.v1 import snapshot_pb2 as pb

ALL_NODES, PER_DEVICE = 1, 2
MOST_DEVICES: Final = 128
MOST_WITH_EXTRAS: Final = 64
"""Devices of a slice in which one has taints, uses counters or has lists as attributes."""
MOST_PARTS: Final = 32
"""Attributes and capacities of a device; counters of a set."""
MOST_COUNTER_SETS: Final = 8
MOST_CONSUMED: Final = 2
MOST_TAINTS: Final = 16

_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder(order="deterministic").encode
_replace = msgspec.structs.replace
IsRead = Callable[[str], bool]


class SliceRow(NamedTuple):
    """A slice. `devices`, `counters` : encoded lists, b"" = none; `selector` : the encoded selector, b"" = none.

    object : the slice, which is kept alive, so that its identity stays its own
    """

    object: ResourceSlice
    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    node: str
    selector: bytes
    flags: int
    devices: bytes
    counters: bytes


class SliceReader:
    """Reads slices. is_read : whether selectors and constraints can read an attribute; None = they can read all."""

    def __init__(self, is_read: IsRead | None) -> None:
        self._is_read = is_read
        self.devices: dict[bytes, list[tuple[str, bytes]]] = {}
        """Encoded list of devices to their names and encoded contents."""
        self.contents: dict[bytes, SliceDevice] = {}
        self.counters: dict[bytes, list[DeviceCounterSet]] = {}
        self.selectors: dict[bytes, NodeSelector] = {}

    def row(self, slice_: ResourceSlice) -> SliceRow:
        """Return the row of a slice. Errors: FieldError."""
        spec = slice_.spec or ResourceSliceSpec()
        pool = spec.pool or ResourcePool()
        with below("spec"):
            for field, text in (("driver", spec.driver), ("pool.name", pool.name)):
                if not text:
                    raise FieldError(field, "it is missing", "give what the driver publishes")
            if spec.devices and spec.shared_counters:
                problem = "the slice has devices too"
                raise FieldError("sharedCounters", problem, "put the counters into a slice of their own")
            ways = (spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection)
            if sum(map(bool, ways)) > 1:
                problem = "more than one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection is given"
                raise FieldError("", problem, "give exactly one")
            selector = self.selector(spec.node_selector)
            return SliceRow(
                slice_,
                (slice_.metadata.name if slice_.metadata else None) or "",
                spec.driver or "",
                pool.name or "",
                pool.generation or 0,
                pool.resource_slice_count or 0,
                spec.node_name or "",
                selector,
                (ALL_NODES if spec.all_nodes else 0) | (PER_DEVICE if spec.per_device_node_selection else 0),
                self.device_list(spec.devices),
                self.counter_list(spec.shared_counters),
            )

    def selector(self, selector: NodeSelector | None) -> bytes:
        """Return a node selector encoded. Errors: FieldError."""
        if selector is None:
            return b""
        key = _encode(selector)
        if key not in self.selectors:
            with below("nodeSelector"):
                node_selector_terms(selector)
            self.selectors[key] = selector
        return key

    def device_list(self, devices: Sequence[SliceDevice] | None) -> bytes:
        """Return a list of devices encoded, without attributes that are not read. Errors: FieldError."""
        if not devices:
            return b""
        kept = [_readable(one, self._is_read) for one in devices]
        key = _encode(kept)
        if key not in self.devices:
            _check_limits(devices)
            found = []
            for at, one in enumerate(kept):
                if not one.name:
                    raise FieldError(f"devices[{at}].name", "it is missing", "give each device a name")
                if one.node_selector is not None:
                    with below(f"devices[{at}]"):
                        self.selector(one.node_selector)
                content = _replace(one, name=None)
                of_content = _encode(content)
                self.contents.setdefault(of_content, content)
                found.append((one.name, of_content))
            self.devices[key] = found
        return key

    def counter_list(self, counters: list[DeviceCounterSet] | None) -> bytes:
        """Return sets of counters encoded. Errors: FieldError."""
        if not counters:
            return b""
        _limit("sharedCounters", counters, MOST_COUNTER_SETS)
        for at, counter in enumerate(counters):
            _limit(f"sharedCounters[{at}].counters", counter.counters or {}, MOST_PARTS)
        key = _encode(counters)
        self.counters.setdefault(key, counters)
        return key


def _readable(device: SliceDevice, is_read: IsRead | None) -> SliceDevice:
    """Return a device without the attributes that are not read, and without the times of its taints."""
    attributes, taints = device.attributes, device.taints
    if attributes and is_read is not None:
        attributes = {name: value for name, value in attributes.items() if is_read(name)} or None
    if taints:
        taints = [_replace(taint, time_added=None) for taint in taints]
    if attributes is device.attributes and taints is device.taints:
        return device
    return _replace(device, attributes=attributes, taints=taints)


def duplicates(devices: Iterable[str]) -> list[str]:
    """Return the names that are given more than once, sorted."""
    seen: set[str] = set()
    again: set[str] = set()
    for name in devices:
        (again if name in seen else seen).add(name)
    return sorted(again)


def device_content(device: SliceDevice, selector: int) -> pb.DeviceContent:
    """Return a device without its name. selector : index of its node selector, plus 1; 0 = none."""
    return pb.DeviceContent(
        attributes=[_attribute(name, value) for name, value in sorted((device.attributes or {}).items())],
        capacities=[_capacity(name, value) for name, value in sorted((device.capacity or {}).items())],
        consumed_counters=[_counter_set(used.counter_set, used) for used in device.consumes_counters or ()],
        taints=[device_taint(taint) for taint in device.taints or ()],
        allow_multiple_allocations=bool(device.allow_multiple_allocations),
        node=device.node_name or "",
        node_selector=selector,
        all_nodes=bool(device.all_nodes),
        binds_to_node=bool(device.binds_to_node),
        binding_conditions=device.binding_conditions or (),
        binding_failure_conditions=device.binding_failure_conditions or (),
    )


def counter_sets(sets: Iterable[DeviceCounterSet]) -> pb.CounterSets:
    """Return the sets of counters of a slice."""
    return pb.CounterSets(sets=[_counter_set(one.name, one) for one in sets])


def device_taint(taint: SliceTaint) -> pb.DeviceTaint:
    """Return a taint of a device."""
    return pb.DeviceTaint(key=taint.key or "", value=taint.value or "", effect=taint.effect or "")


def _attribute(name: str, one: SliceAttribute) -> pb.DeviceAttribute:
    row = pb.DeviceAttribute(name=name)
    if one.int_value is not None:
        row.int_value = one.int_value
    elif one.bool_value is not None:
        row.bool_value = one.bool_value
    elif one.version is not None:
        row.version_value = one.version
    elif one.ints or one.bools or one.strings or one.versions:
        row.list_value.CopyFrom(
            pb.DeviceAttributeList(ints=one.ints, bools=one.bools, strings=one.strings, versions=one.versions)
        )
    else:
        row.string_value = one.string or ""
    return row


def _capacity(name: str, capacity: SliceCapacity) -> pb.DeviceCapacity:
    row = pb.DeviceCapacity(name=name, value=_text(capacity.value))
    policy = capacity.request_policy
    if policy is not None:
        row.has_policy = True
        row.default_request = _text(policy.default)
        row.valid_values.extend(_text(value) for value in policy.valid_values or ())
        if policy.valid_range is not None:
            limits = policy.valid_range
            row.valid_range.CopyFrom(
                pb.CapacityRange(min=_text(limits.min), max=_text(limits.max), step=_text(limits.step))
            )
    return row


def _text(quantity: str | int | float | None) -> str:
    return "" if quantity is None else str(quantity)


def _counter_set(name: str | None, counter_set: DeviceCounterSet | CounterConsumption) -> pb.CounterSet:
    amounts = {key: counter.value or 0 for key, counter in (counter_set.counters or {}).items()}
    return pb.CounterSet(name=name or "", counters=quantities(amounts))


def _check_limits(devices: Sequence[SliceDevice]) -> None:
    """Check the limits of the API. Errors: FieldError."""
    _limit("devices", devices, MOST_DEVICES)
    if any(map(_has_extras, devices)):
        _limit("devices", devices, MOST_WITH_EXTRAS)
    for at, device in enumerate(devices):
        with below(f"devices[{at}]"):
            parts = len(device.attributes or {}) + len(device.capacity or {})
            if parts > MOST_PARTS:
                raise FieldError(
                    "attributes", f"attributes and capacity together are {parts}", f"give at most {MOST_PARTS}"
                )
            _limit("consumesCounters", device.consumes_counters or (), MOST_CONSUMED)
            _limit("taints", device.taints or (), MOST_TAINTS)


def _has_extras(device: SliceDevice) -> bool:
    if device.taints or device.consumes_counters:
        return True
    return any(a.ints or a.bools or a.strings or a.versions for a in (device.attributes or {}).values())


def _limit(field: str, items: Any, most: int) -> None:
    if len(items) > most:
        raise FieldError(field, f"there are {len(items)}", f"give at most {most}")
