"""Devices of dynamic resource allocation as plain rows with the allocator's values, written as the message `Devices`
with its dictionaries and rows in the order of a seed.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.devices.model import (
    AllocatedDevice,
    AttributeKind,
    ClaimRequest,
    CounterSet,
    DeviceAttribute,
    DeviceClaim,
    DeviceContent,
    DeviceId,
    DeviceSet,
    DeviceSlice,
    DeviceSubRequest,
    NodeSelection,
)
from trimtab.planner.devices.taint_rules import TaintRule
from trimtab.planner.model.values import NodeAffinityTerm, PodClaim, PodRequirements
from trimtab.planner.slack.specs import write_claim_spec
from trimtab.planner.snapshot.columns import ClassOfDevices, TemplateSlice
from trimtab.v1 import snapshot_pb2 as pb

DRIVER = "gpu.example.com"
GPU_CLASS = ClassOfDevices("gpu", (f'device.driver == "{DRIVER}"',), "", 0)


class ClaimRow(NamedTuple):
    """A claim. pod, pod_claim : of the pod that owns it; devices : its allocation, None = none; nodes : of that;
    consumers : names of pods, "" = something else; flags : as on the wire, without that of the allocation."""

    namespace: str
    name: str
    spec: DeviceClaim
    pod: str = ""
    pod_claim: str = ""
    devices: tuple[AllocatedDevice, ...] | None = None
    nodes: NodeSelection | None = None
    consumers: tuple[str, ...] = ()
    flags: int = 0


@dataclass(frozen=True)
class DeviceWorld:
    """All device objects of a cluster. templates : node group and slices of its new nodes."""

    slices: tuple[DeviceSlice, ...] = ()
    classes: tuple[ClassOfDevices, ...] = ()
    claims: tuple[ClaimRow, ...] = ()
    taint_rules: tuple[TaintRule, ...] = ()
    templates: tuple[tuple[str, tuple[TemplateSlice, ...]], ...] = ()
    minor: int = 0
    gates: tuple[str, ...] = ()


NO_WORLD = DeviceWorld()


def gpu_slice(node: str, count: int, content: DeviceContent | None = None, driver: str = DRIVER) -> DeviceSlice:
    """Return the only slice of a node's pool, with equal devices."""
    names = tuple(f"gpu-{i}" for i in range(count))
    devices = DeviceSet(names, (content or DeviceContent(),) * count)
    return DeviceSlice(f"{node}-{driver}", driver, node, 1, 1, NodeSelection(node), devices=devices)


def device(node: str, number: int, request: str = "gpu", driver: str = DRIVER) -> AllocatedDevice:
    """Return a device of `gpu_slice` as the result of a request."""
    return AllocatedDevice(request, DeviceId(driver, node, f"gpu-{number}"))


def claim(count: int = 1, device_class: str = "gpu", **rest: object) -> DeviceClaim:
    """Return what a claim asks for; `rest` as in `DeviceSubRequest`."""
    return DeviceClaim("", (ClaimRequest("gpu", DeviceSubRequest(device_class, count=count, **rest)),))  # type: ignore[arg-type]


def claiming(*claims: DeviceClaim) -> PodRequirements:
    """Return a pod spec with claims of its own."""
    return PodRequirements(claims=tuple(PodClaim(f"c{at}", "", one, "") for at, one in enumerate(claims)))


def world(*slices: DeviceSlice, **rest: object) -> DeviceWorld:
    """Return slices with the class "gpu"; `rest` as in `DeviceWorld`."""
    return DeviceWorld(slices=slices, classes=(GPU_CLASS,), **rest)  # type: ignore[arg-type]


PARTS = (CounterSet("chip", (("memory", 40),)),)


def partitioned(node: str) -> tuple[DeviceSlice, ...]:
    """Return the slices of a node with a whole device and two halves of it."""
    sizes = {"whole": 40, "left": 20, "right": 20}
    contents = tuple(
        DeviceContent(
            attributes=(DeviceAttribute("size", AttributeKind.INT, size),),
            consumes_counters=(("chip", (("memory", size),)),),
        )
        for size in sizes.values()
    )
    here = NodeSelection(node)
    return (
        DeviceSlice(f"{node}-1", DRIVER, node, 1, 2, here, devices=DeviceSet(tuple(sizes), contents)),
        DeviceSlice(f"{node}-2", DRIVER, node, 1, 2, here, counter_sets=PARTS),
    )


def write_devices(world: DeviceWorld, seed: int | None = 0) -> pb.Devices:
    """Write the message. seed : of the order of rows, None = that of the world."""
    return _Writer(None if seed is None else random.Random(seed)).write(world)


class _Writer:
    def __init__(self, chance: random.Random | None) -> None:
        self._chance = chance
        self._out = pb.Devices()
        self._strings: dict[str, int] = {"": 0}
        self._tables: dict[str, dict[Any, int]] = {
            name: {} for name in ("contents", "device_sets", "counter_sets", "node_selectors", "claim_specs")
        }

    def write(self, world: DeviceWorld) -> pb.Devices:
        """Write all of it."""
        out = self._out
        for text in self._shuffled(["unused", "b", "a"]):
            self._string(text)
        out.kubernetes_minor = world.minor
        out.feature_gates.extend(self._shuffled(world.gates))
        self._write_slices(self._shuffled(world.slices))
        for one in self._shuffled(world.classes):
            known = [text for text in one.selectors if text is not None]
            row = out.classes.add(
                name=one.name, selectors=known, extended_resource_name=one.extended_resource,
                unknown_selector=None in one.selectors,
            )  # fmt: skip
            if one.created_s:
                row.create_time.seconds = one.created_s
        self._write_claims(self._shuffled(world.claims))
        for rule in self._shuffled(world.taint_rules):
            row = out.taint_rules.add(driver=rule.driver, pool=rule.pool, device=rule.device)
            row.taint.key, row.taint.value, row.taint.effect = rule.taint.key, rule.taint.value, rule.taint.effect
        for group, slices in self._shuffled(world.templates):
            self._write_template(group, slices)
        out.strings.extend(self._strings)
        return out

    def _shuffled(self, rows: Iterable[Any]) -> list[Any]:
        listed = list(rows)
        if self._chance is not None:
            self._chance.shuffle(listed)
        return listed

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _entry(self, table: str, value: Any, add: Callable[[], None]) -> int:
        """Return the row of a value in a dictionary, plus 1; it is added if it is not there."""
        rows = self._tables[table]
        if value not in rows:
            add()
            rows[value] = len(getattr(self._out, table))
        return rows[value]

    def _selector(self, terms: tuple[NodeAffinityTerm, ...] | None) -> int:
        if terms is None:
            return 0

        def add() -> None:
            out = self._out.node_selectors.add()
            for term in terms:
                row = out.terms.add()
                for field, found in ((row.match_expressions, term.match_expressions),
                                     (row.match_fields, term.match_fields)):  # fmt: skip
                    for one in found:
                        values = [self._string(value) for value in one.values]
                        field.add(key=self._string(one.key), operator=one.operator, values=values)

        return self._entry("node_selectors", terms, add)

    def _content(self, content: DeviceContent) -> int:
        return self._entry("contents", content, lambda: self._add_content(content))

    def _add_content(self, content: DeviceContent) -> None:
        nodes = content.nodes or NodeSelection()
        selector = self._selector(nodes.selector)
        out = self._out.contents.add(
            allow_multiple_allocations=content.allow_multiple_allocations,
            node=nodes.node_name,
            node_selector=selector,
            all_nodes=nodes.all_nodes,
            binds_to_node=content.binds_to_node,
            binding_conditions=["Ready"] if content.has_binding_conditions else [],
        )
        for one in content.attributes:
            _add_attribute(out, one)
        for capacity in content.capacities:
            row = out.capacities.add(name=capacity.name, value=f"{capacity.value_nano}n")
            if policy := capacity.policy:
                row.has_policy = True
                row.default_request = _text(policy.default_nano)
                row.valid_values.extend(_text(nano) for nano in policy.valid_values_nano or ())
                if policy.valid_range is not None:
                    row.valid_range.min = _text(policy.valid_range.min_nano)
                    row.valid_range.max = _text(policy.valid_range.max_nano)
                    row.valid_range.step = _text(policy.valid_range.step_nano)
        for name, counters in content.consumes_counters:
            _add_counters(out.consumed_counters, CounterSet(name, counters))
        for taint in content.taints:
            out.taints.add(key=taint.key, value=taint.value, effect=taint.effect)

    def _device_set(self, devices: DeviceSet) -> int:
        if not devices.names:
            return 0

        def add() -> None:
            contents = [self._content(one) - 1 for one in devices.contents]
            self._out.device_sets.add(names=[self._string(name) for name in devices.names], contents=contents)

        return self._entry("device_sets", devices, add)

    def _counter_sets(self, sets: tuple[CounterSet, ...]) -> int:
        if not sets:
            return 0

        def add() -> None:
            out = self._out.counter_sets.add()
            for one in sets:
                _add_counters(out.sets, one)

        return self._entry("counter_sets", sets, add)

    def _write_slices(self, slices: list[DeviceSlice]) -> None:
        out = self._out.slices
        names = [one.name.encode() for one in slices]
        out.count = len(slices)
        out.names, out.name_lengths = b"".join(names), _int32(map(len, names))
        out.driver = _int32(self._string(one.driver) for one in slices)
        out.pool = _int32(self._string(one.pool) for one in slices)
        out.generation = np.array([one.generation for one in slices], "<i8").tobytes()
        out.slice_count = np.array([one.slice_count for one in slices], "<i8").tobytes()
        out.node = _int32(self._string(one.nodes.node_name) for one in slices)
        out.node_selector = _int32(self._selector(one.nodes.selector) for one in slices)
        out.flags = bytes(one.nodes.all_nodes + 2 * one.per_device_nodes for one in slices)
        out.device_set = _int32(self._device_set(one.devices) for one in slices)
        out.counter_set = _int32(self._counter_sets(one.counter_sets) for one in slices)

    def _spec(self, spec: DeviceClaim) -> int:
        content = replace(spec, name="")
        return self._entry(
            "claim_specs", content, lambda: write_claim_spec(self._out.claim_specs.add(), content)
        ) - 1  # fmt: skip

    def _write_claims(self, claims: list[ClaimRow]) -> None:
        out = self._out.claims
        names, pods = ([getattr(one, field).encode() for one in claims] for field in ("name", "pod"))
        out.count = len(claims)
        out.namespace = _int32(self._string(one.namespace) for one in claims)
        out.names, out.name_lengths = b"".join(names), _int32(map(len, names))
        out.spec = _int32(self._spec(one.spec) for one in claims)
        out.pods, out.pod_lengths = b"".join(pods), _int32(map(len, pods))
        out.pod_claim = _int32(self._string(one.pod_claim) for one in claims)
        out.flags = bytes(one.flags + (one.devices is not None) for one in claims)
        nodes = [one.nodes or NodeSelection() for one in claims]
        out.node = _int32(self._string(one.node_name) for one in nodes)
        out.node_selector = _int32(self._selector(one.selector) for one in nodes)
        results = [(row, one) for row, claim in enumerate(claims) for one in claim.devices or ()]
        out.result_claim = _int32(row for row, _ in results)
        out.result_driver = _int32(self._string(one.device.driver) for _, one in results)
        out.result_pool = _int32(self._string(one.device.pool) for _, one in results)
        out.result_device = _int32(self._string(one.device.device) for _, one in results)
        out.result_request = _int32(self._string(one.request) for _, one in results)
        out.result_flags = bytes(one.admin_access + 2 * one.shared for _, one in results)
        amounts = [(row, *amount) for row, (_, one) in enumerate(results) for amount in one.consumed]
        out.capacity_result = _int32(row for row, _, _ in amounts)
        out.capacity_name = _int32(self._string(name) for _, name, _ in amounts)
        out.capacity_amount = _int32(self._string(f"{nano}n") for _, _, nano in amounts)
        consumers = [(row, name) for row, claim in enumerate(claims) for name in self._shuffled(claim.consumers)]
        out.consumer_claim = _int32(row for row, _ in consumers)
        out.consumers = "".join(name for _, name in consumers).encode()
        out.consumer_lengths = _int32(len(name.encode()) for _, name in consumers)

    def _write_template(self, group: str, slices: tuple[TemplateSlice, ...]) -> None:
        rows = [
            pb.TemplateSlice(
                driver=one.driver,
                pool=one.pool,
                device_set=self._device_set(one.devices),
                counter_set=self._counter_sets(one.counter_sets),
                per_device_node_selection=one.per_device_nodes,
            )
            for one in slices
        ]
        self._out.templates.add(node_group=group, slices=rows)


def _add_attribute(out: pb.DeviceContent, one: DeviceAttribute) -> None:
    row = out.attributes.add(name=one.name)
    if one.value is None:
        row.list_value.strings.append("x")
    else:
        setattr(row, f"{one.kind.name.lower()}_value", one.value)


def _add_counters(out: Any, one: CounterSet) -> None:
    row = out.add(name=one.name)
    for name, nano in one.counters:
        row.counters.add(name=name, value=f"{nano}n")


def _text(nano: int | None) -> str:
    return "" if nano is None else f"{nano}n"


def _int32(values: Iterable[int]) -> bytes:
    return np.fromiter(values, "<i4").tobytes()


MIG = {"1g": (1, (0, 1, 2, 3, 4, 5, 6)), "2g": (2, (0, 2, 4)), "3g": (4, (0, 4)), "4g": (4, (0,)), "7g": (8, (0,))}
"""Partitions of a GPU like those of an A100: memory slices, and where they may begin."""


def mig_slices(
    node: str, gpus: int, sizes: Iterable[str] = tuple(MIG), *, is_mixed: bool = False
) -> tuple[DeviceSlice, ...]:
    """Return the slices of a node whose GPUs are partitioned: each may have the partitions of some sizes, which share
    its memory slices and compute slices. is_mixed : partitions are published by size instead of by GPU."""
    rows = [
        (gpu, size, first, MIG[size][0]) for gpu in range(gpus) for size in sizes for first in MIG[size][1]
    ]  # fmt: skip
    rows.sort(key=lambda row: (row[1], row[2], row[0]) if is_mixed else (row[0],))
    contents = tuple(
        DeviceContent(
            attributes=(DeviceAttribute("profile", AttributeKind.STRING, size),),
            consumes_counters=(
                (
                    f"gpu-{gpu}",
                    (*((f"memory-{at}", 1) for at in range(first, first + slices)), ("compute", int(size[0]))),
                ),
            ),
        )
        for gpu, size, first, slices in rows
    )
    names = tuple(f"gpu-{gpu}-{size}-{first}" for gpu, size, first, _ in rows)
    counters = tuple(
        CounterSet(f"gpu-{gpu}", (*((f"memory-{at}", 1) for at in range(8)), ("compute", 7))) for gpu in range(gpus)
    )
    parts = [slice(at, at + 64) for at in range(0, len(rows), 64)]  # as many as a slice may have
    here, count = NodeSelection(node), len(parts) + 1
    return (
        *(
            DeviceSlice(f"{node}-{at}", DRIVER, node, 1, count, here, devices=DeviceSet(names[part], contents[part]))
            for at, part in enumerate(parts, 1)
        ),
        DeviceSlice(f"{node}-{count}", DRIVER, node, 1, count, here, counter_sets=counters),
    )


def partition(size: str, count: int = 1) -> DeviceClaim:
    """Return a claim of partitions of one size."""
    return claim(count, selectors=(f'device.attributes["{DRIVER}"].profile == "{size}"',))
