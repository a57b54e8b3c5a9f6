"""Rows of the dictionaries of devices as values of the allocator: contents, counters, claim specs, classes, rules.

Quantities are parsed, and the API's limits on lists hold, as in every object that an API server accepts; nothing else
is judged: what makes no sense is the allocator's to refuse, for the pods that it concerns. Raises SnapshotError.
Source: `protos/trimtab/v1/snapshot.proto`; limits of kubernetes pkg/apis/resource.
"""

from collections.abc import Iterable, Sequence, Sized
from typing import Final

from trimtab.planner.devices import model
from trimtab.planner.devices.quantities import parse_quantity
from trimtab.planner.devices.taint_rules import TaintRule
from trimtab.planner.model.values import ExtendedDeviceRequest, NodeAffinityTerm, PodClaim
from trimtab.planner.snapshot.checks import Row
from trimtab.planner.snapshot.columns import ClassOfDevices
from trimtab.v1 import snapshot_pb2 as pb

MOST_REQUESTS: Final = 32
MOST_CONSTRAINTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_SELECTORS: Final = 32
"""Of a request, an alternative, or a class."""
MOST_TOLERATIONS: Final = 16
MOST_DEVICES: Final = 128
MOST_WITH_EXTRAS: Final = 64
"""Devices of a slice in which one has taints, takes of counters or has lists as attributes."""
MOST_PARTS: Final = 32
"""Attributes and capacities of a device; counters of a set."""
MOST_COUNTER_SETS: Final = 8
MOST_CONSUMED: Final = 2
"""Sets of counters of which a device takes."""
MOST_TAINTS: Final = 16
MOST_RESULTS: Final = 32
"""Devices that a claim has."""

_MODES: Final = {
    pb.DeviceAllocationMode.UNSPECIFIED: model.AllocationMode.EXACT_COUNT.value,
    pb.DeviceAllocationMode.EXACT_COUNT: model.AllocationMode.EXACT_COUNT.value,
    pb.DeviceAllocationMode.ALL: model.AllocationMode.ALL.value,
    pb.DeviceAllocationMode.OTHER: "Other",
}
_LISTS: Final = "list_value"
_KINDS: Final = {
    "int_value": model.AttributeKind.INT,
    "bool_value": model.AttributeKind.BOOL,
    "string_value": model.AttributeKind.STRING,
    "version_value": model.AttributeKind.VERSION,
}


def read_quantity(row: Row, text: str, field: str) -> int:
    """Return the nano-units of a quantity."""
    quantity = parse_quantity(text)
    return row.refuse(field, f"{text!r} is not a quantity, such as 40Gi") if quantity is None else quantity


def check_limit(row: Row, items: Sized, limit: int, field: str, whose: str = "") -> None:
    """Refuse a list that is longer than the API allows. whose : what has the list, for people, "" = the row."""
    if len(items) > limit:
        row.refuse(field, f"{whose}{' has' if whose else 'there are'} {len(items)}; the API allows at most {limit}")


def check_device_count(row: Row, devices: Sequence[model.DeviceContent]) -> None:
    """Refuse a slice with more devices than the API allows."""
    check_limit(row, devices, MOST_DEVICES, "contents")
    if len(devices) > MOST_WITH_EXTRAS and any(map(_has_extras, devices)):
        problem = f"there are {len(devices)}; the API allows at most {MOST_WITH_EXTRAS}"
        row.refuse("contents", f"{problem} where one has taints, takes of counters or has lists as attributes")


def _has_extras(device: model.DeviceContent) -> bool:
    if device.taints or device.consumes_counters:
        return True
    return any(attribute.kind == model.AttributeKind.UNKNOWN for attribute in device.attributes)


def read_content(
    row: Row, m: pb.DeviceContent, selectors: Sequence[tuple[NodeAffinityTerm, ...]]
) -> model.DeviceContent:
    """Return a device without its name. selectors : of the message."""
    if not 0 <= m.node_selector <= len(selectors):
        row.refuse("node_selector", f"{m.node_selector} is no index into node_selectors, plus 1")
    parts = (*m.attributes, *m.capacities)
    check_limit(row, parts, MOST_PARTS, "attributes", "with its capacities, the device")
    check_limit(row, m.consumed_counters, MOST_CONSUMED, "consumed_counters")
    check_limit(row, m.taints, MOST_TAINTS, "taints")
    nodes = None
    if m.node or m.node_selector or m.all_nodes:
        terms = selectors[m.node_selector - 1] if m.node_selector else None
        nodes = model.NodeSelection(m.node, m.all_nodes, terms)
    return model.DeviceContent(
        attributes=tuple(
            [_attribute(row, attribute) for attribute in sorted(m.attributes, key=lambda attribute: attribute.name)]
        ),
        capacities=tuple(
            [_capacity(row, capacity) for capacity in sorted(m.capacities, key=lambda capacity: capacity.name)]
        ),
        consumes_counters=tuple(
            [(counter_set.name, counter_set.counters) for counter_set in _counters(row, m.consumed_counters)]
        ),
        taints=tuple([read_taint(row, taint, "taints") for taint in m.taints]),
        nodes=nodes,
        allow_multiple_allocations=m.allow_multiple_allocations,
        has_binding_conditions=bool(m.binding_conditions),
        binds_to_node=m.binds_to_node,
    )


def _attribute(row: Row, m: pb.DeviceAttribute) -> model.DeviceAttribute:
    name, kind = row.needed(m.name, "attributes.name"), m.WhichOneof("value")
    if kind is None:
        row.refuse("attributes.value", f"{m.name!r} has none; give one")
    if kind == _LISTS:
        return model.DeviceAttribute(name, model.AttributeKind.UNKNOWN, None)
    return model.DeviceAttribute(name, _KINDS[kind], getattr(m, kind))


def _capacity(row: Row, m: pb.DeviceCapacity) -> model.DeviceCapacity:
    policy = None
    if m.has_policy:
        values = [read_quantity(row, text, "capacities.valid_values") for text in m.valid_values]
        policy = model.CapacityPolicy(
            default_nano=_optional(row, m.default_request, "capacities.default_request"),
            valid_values_nano=tuple(values) or None,
            valid_range=_range(row, m.valid_range) if m.HasField("valid_range") else None,
        )
    value = read_quantity(row, m.value, "capacities.value")
    return model.DeviceCapacity(row.needed(m.name, "capacities.name"), value, policy)


def _range(row: Row, m: pb.CapacityRange) -> model.CapacityRange:
    place = "capacities.valid_range"
    return model.CapacityRange(
        *(_optional(row, getattr(m, field), f"{place}.{field}") for field in ("min", "max", "step"))
    )


def _optional(row: Row, text: str, field: str) -> int | None:
    return read_quantity(row, text, field) if text else None


def _counters(row: Row, messages: Iterable[pb.CounterSet]) -> tuple[model.CounterSet, ...]:
    return tuple(
        [
            model.CounterSet(row.needed(message.name, "counters.name"), _amounts(row, message.counters, "counters"))
            for message in messages
        ]
    )


def _amounts(row: Row, messages: Iterable[pb.NamedQuantity], field: str) -> tuple[tuple[str, int], ...]:
    return tuple(
        sorted((row.needed(m.name, f"{field}.name"), read_quantity(row, m.value, f"{field}.value")) for m in messages)
    )


def read_counter_sets(row: Row, m: pb.CounterSets) -> tuple[model.CounterSet, ...]:
    """Return the sets of counters of a slice, in their order."""
    check_limit(row, m.sets, MOST_COUNTER_SETS, "sets")
    for counter_set in m.sets:
        check_limit(row, counter_set.counters, MOST_PARTS, "sets.counters", f"set {counter_set.name!r}")
    return _counters(row, m.sets)


def read_taint(row: Row, m: pb.DeviceTaint, field: str) -> model.DeviceTaint:
    """Return a taint."""
    return model.DeviceTaint(row.needed(m.key, f"{field}.key"), m.value, m.effect)


def read_claim_spec(row: Row, m: pb.DeviceClaimSpec, field: str) -> model.DeviceClaim:
    """Return what a claim asks for; the claim has no name."""
    check_limit(row, m.requests, MOST_REQUESTS, f"{field}requests")
    check_limit(row, m.constraints, MOST_CONSTRAINTS, f"{field}constraints")
    requests = tuple([_request(row, request, f"{field}requests") for request in m.requests])
    constraints = tuple(
        [
            model.DeviceConstraint(
                tuple(constraint.requests), constraint.match_attribute, constraint.distinct_attribute
            )
            for constraint in m.constraints
        ]
    )
    return model.DeviceClaim("", requests, constraints)


def _request(row: Row, m: pb.DeviceRequest, field: str) -> model.ClaimRequest:
    name = row.needed(m.name, f"{field}.name")
    admin = m.admin_access or None
    check_limit(row, m.alternatives, MOST_ALTERNATIVES, f"{field}.alternatives", f"request {name!r}")
    for alternative in m.alternatives:
        whose = f"request {'/'.join(filter(None, (name, alternative.name)))!r}"
        check_limit(row, alternative.selectors, MOST_SELECTORS, f"{field}.alternatives.selectors", whose)
        check_limit(row, alternative.tolerations, MOST_TOLERATIONS, f"{field}.alternatives.tolerations", whose)
    alternatives = tuple(
        [_sub_request(row, alternative, admin, f"{field}.alternatives") for alternative in m.alternatives]
    )
    if m.first_available:
        return model.ClaimRequest(name, None, alternatives)
    if len(alternatives) != 1:
        row.refuse(
            f"{field}.alternatives", f"there are {len(alternatives)}; a request that has none of its own has one"
        )
    return model.ClaimRequest(name, alternatives[0])


def _sub_request(row: Row, m: pb.DeviceSubRequest, admin: bool | None, field: str) -> model.DeviceSubRequest:
    selectors: tuple[str | None, ...] = tuple(m.selectors)
    return model.DeviceSubRequest(
        device_class=m.device_class,
        name=m.name,
        selectors=(*selectors, None) if m.unknown_selector else selectors,
        mode=_MODES[row.code(m.mode, _MODES, f"{field}.mode")],  # type: ignore[index]
        count=m.count or 1,
        tolerations=tuple(
            [
                model.DeviceToleration(
                    toleration.key, toleration.operator or "Equal", toleration.value, toleration.effect
                )
                for toleration in m.tolerations
            ]
        ),
        capacity=_amounts(row, m.capacities, f"{field}.capacities") or None,
        admin_access=admin,
    )


def read_class(row: Row, m: pb.DeviceClass) -> ClassOfDevices:
    """Return a class."""
    check_limit(row, m.selectors, MOST_SELECTORS, "selectors", f"class {m.name!r}")
    selectors: tuple[str | None, ...] = tuple(m.selectors)
    return ClassOfDevices(
        row.needed(m.name, "name"),
        (*selectors, None) if m.unknown_selector else selectors,
        m.extended_resource_name,
        row.time_s(m, "create_time"),
    )


def read_taint_rule(row: Row, m: pb.DeviceTaintRule) -> TaintRule:
    """Return a rule that taints devices."""
    return TaintRule(
        m.driver if m.HasField("driver") else None,
        m.pool if m.HasField("pool") else None,
        m.device if m.HasField("device") else None,
        read_taint(row, m.taint, "taint"),
    )


def read_pod_claims(row: Row, messages: Iterable[pb.PodClaim]) -> tuple[PodClaim, ...]:
    """Return the claims of a pod spec in their order."""
    return tuple(
        [
            PodClaim(
                row.needed(m.name, "claims.name"),
                m.shared_claim,
                _spec_of_claim(row, m),
                m.problem,
            )
            for m in messages
        ]
    )


def _spec_of_claim(row: Row, m: pb.PodClaim) -> model.DeviceClaim | None:
    if m.HasField("spec"):
        return read_claim_spec(row, m.spec, "claims.spec.")
    if not m.shared_claim and not m.problem:
        row.refuse("claims.spec", f"claim {m.name!r} has none and is not shared; give what it asks for")
    return None


def read_extended_requests(row: Row, messages: Iterable[pb.ExtendedDeviceRequest]) -> tuple[ExtendedDeviceRequest, ...]:
    """Return the extended resources of a pod spec that devices may satisfy, sorted by name."""
    field = "extended_device_requests"
    return tuple(
        sorted(
            ExtendedDeviceRequest(
                row.needed(m.name, f"{field}.name"),
                row.needed(m.resource, f"{field}.resource"),
                row.at_least(m.count, 1, f"{field}.count"),
            )
            for m in messages
        )
    )
