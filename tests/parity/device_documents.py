"""Documents of the device oracle as values of the planner, and answers of the planner in the oracle's form.

`device_oracle/document.go` says what a document and an answer are.
"""

from collections.abc import Mapping
from typing import Any

from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AllocatedState,
    AllocationOutcome,
    AttributeKind,
    CapacityPolicy,
    CapacityRange,
    ClaimAllocation,
    ClaimRequest,
    CounterSet,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceContent,
    DeviceError,
    DeviceFeatures,
    DeviceId,
    DeviceNode,
    DevicesAllocated,
    DeviceSet,
    DeviceSlice,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    NodeSelection,
    RefusalKind,
)
from trimtab.planner.devices.quantities import parse_quantity
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm
from trimtab.v1.snapshot_pb2 import LabelOperator

Json = Mapping[str, Any]
OPERATORS = {
    "In": LabelOperator.IN, "NotIn": LabelOperator.NOT_IN, "Exists": LabelOperator.EXISTS,
    "DoesNotExist": LabelOperator.DOES_NOT_EXIST, "Gt": LabelOperator.GT, "Lt": LabelOperator.LT,
}  # fmt: skip
KINDS = {
    "int": AttributeKind.INT, "bool": AttributeKind.BOOL, "string": AttributeKind.STRING,
    "version": AttributeKind.VERSION, "ints": AttributeKind.INTS, "bools": AttributeKind.BOOLS,
    "strings": AttributeKind.STRINGS, "versions": AttributeKind.VERSIONS,
}  # fmt: skip


def nano(text: str | int) -> int:
    """Return a quantity as the documents spell it."""
    amount = parse_quantity(str(text))
    assert amount is not None, text
    return amount


def amounts(found: Json | None) -> tuple[tuple[str, int], ...]:
    """Return a map of quantities, sorted by name."""
    return tuple(sorted((name, nano(value)) for name, value in (found or {}).items()))


def features(found: Json, version: int) -> DeviceFeatures:
    """Return the features of a document."""
    return DeviceFeatures(
        version=version,
        admin_access=found.get("AdminAccess", False),
        prioritized_list=found.get("PrioritizedList", False),
        partitionable_devices=found.get("PartitionableDevices", False),
        device_taints=found.get("DeviceTaints", False),
        consumable_capacity=found.get("ConsumableCapacity", False),
        binding_conditions=found.get("DeviceBindingAndStatus", False),
        fractional_capacity_range=found.get("FractionalCapacityRange", False),
    )


def _requirements(found: list[Json] | None) -> tuple[LabelRequirement, ...]:
    return tuple(
        LabelRequirement(one["key"], OPERATORS.get(one["operator"], 0), tuple(one.get("values") or ()))
        for one in found or ()
    )


def node_selection(found: Json) -> NodeSelection:
    """Return who reaches a slice or a device."""
    selector = found.get("nodeSelector")
    terms = None
    if selector is not None:
        terms = tuple(
            NodeAffinityTerm(_requirements(one.get("matchExpressions")), _requirements(one.get("matchFields")))
            for one in selector.get("nodeSelectorTerms") or ()
        )
    return NodeSelection(found.get("nodeName") or "", bool(found.get("allNodes")), terms)


def _policy(found: Json | None) -> CapacityPolicy | None:
    if found is None:
        return None
    default, values, limits = found.get("default"), found.get("validValues"), found.get("validRange")
    valid = None
    if limits is not None:
        valid = CapacityRange(*(nano(limits[name]) if name in limits else None for name in ("min", "max", "step")))
    return CapacityPolicy(
        None if default is None else nano(default), None if not values else tuple(map(nano, values)), valid
    )


def _attribute(name: str, found: Json) -> DeviceAttribute:
    for key, kind in KINDS.items():
        if key in found:
            value = found[key]
            return DeviceAttribute(name, kind, tuple(value) if isinstance(value, list) else value)
    return DeviceAttribute(name, AttributeKind.UNKNOWN, None)


def device_content(found: Json) -> DeviceContent:
    """Return the content of a device."""
    nodes = node_selection(found)
    return DeviceContent(
        attributes=tuple(_attribute(name, value) for name, value in (found.get("attributes") or {}).items()),
        capacities=tuple(
            DeviceCapacity(name, nano(value["value"]), _policy(value.get("requestPolicy")))
            for name, value in (found.get("capacity") or {}).items()
        ),
        consumes_counters=tuple(
            (one["counterSet"], amounts({name: value["value"] for name, value in (one.get("counters") or {}).items()}))
            for one in found.get("consumesCounters") or ()
        ),
        taints=tuple(
            DeviceTaint(one.get("key", ""), one.get("value", ""), one.get("effect", ""))
            for one in found.get("taints") or ()
        ),
        nodes=None if nodes == NodeSelection() else nodes,
        allow_multiple_allocations=bool(found.get("allowMultipleAllocations")),
        has_binding_conditions=bool(found.get("bindingConditions")),
        binds_to_node=bool(found.get("bindsToNode")),
        in_compatibility_groups=any(one.get("compatibilityGroups") for one in found.get("consumesCounters") or ()),
    )


def device_slice(found: Json) -> DeviceSlice:
    """Return a ResourceSlice."""
    spec = found["spec"]
    devices = spec.get("devices") or ()
    return DeviceSlice(
        name=found["metadata"]["name"],
        driver=spec["driver"],
        pool=spec["pool"]["name"],
        generation=spec["pool"].get("generation", 0),
        slice_count=spec["pool"].get("resourceSliceCount", 0),
        nodes=node_selection(spec),
        per_device_nodes=bool(spec.get("perDeviceNodeSelection")),
        devices=DeviceSet(tuple(one["name"] for one in devices), tuple(map(device_content, devices))),
        counter_sets=tuple(
            CounterSet(
                one["name"], amounts({name: value["value"] for name, value in (one.get("counters") or {}).items()})
            )
            for one in spec.get("sharedCounters") or ()
        ),
    )


def _sub_request(found: Json, name: str = "") -> DeviceSubRequest:
    capacity = found.get("capacity")
    return DeviceSubRequest(
        device_class=found.get("deviceClassName", ""),
        name=name,
        selectors=tuple((one.get("cel") or {}).get("expression") for one in found.get("selectors") or ()),
        mode=found.get("allocationMode", ""),
        count=found.get("count", 0),
        tolerations=tuple(
            DeviceToleration(one.get("key", ""), one.get("operator", ""), one.get("value", ""), one.get("effect", ""))
            for one in found.get("tolerations") or ()
        ),
        capacity=None if capacity is None else amounts(capacity.get("requests")),
        admin_access=found.get("adminAccess"),
    )


def device_claim(found: Json) -> DeviceClaim:
    """Return a ResourceClaim."""
    spec = (found.get("spec") or {}).get("devices") or {}
    requests = []
    for one in spec.get("requests") or ():
        exactly = one.get("exactly")
        alternatives = tuple(
            _sub_request(alternative, alternative["name"]) for alternative in one.get("firstAvailable") or ()
        )
        requests.append(ClaimRequest(one["name"], None if exactly is None else _sub_request(exactly), alternatives))
    constraints = tuple(
        DeviceConstraint(
            tuple(one.get("requests") or ()), one.get("matchAttribute", ""), one.get("distinctAttribute", "")
        )
        for one in spec.get("constraints") or ()
    )
    return DeviceClaim(found["metadata"]["name"], tuple(requests), constraints)


def device_class(found: Json) -> DeviceClass:
    """Return a DeviceClass."""
    selectors = tuple(
        (one.get("cel") or {}).get("expression") for one in (found.get("spec") or {}).get("selectors") or ()
    )
    return DeviceClass(found["metadata"]["name"], selectors)


def device_node(found: Json) -> DeviceNode:
    """Return a node."""
    return DeviceNode(found["metadata"]["name"], tuple(sorted((found["metadata"].get("labels") or {}).items())))


def allocated_device(found: Json) -> AllocatedDevice:
    """Return a device in use."""
    return AllocatedDevice(
        found.get("request", ""),
        DeviceId(found["driver"], found["pool"], found["device"]),
        bool(found.get("adminAccess")),
        found.get("shareID") is not None,
        amounts(found.get("consumedCapacity")),
    )


Answer = dict[str, Any]
"""An answer as the oracle writes it; quantities in nano-units, and of an error only that there is one."""


def comparable(answer: Json) -> Answer:
    """Return an answer of the oracle, such that equal answers are equal."""
    if answer.get("error") or answer.get("timeout"):
        return {"error": True} if answer.get("error") else {"timeout": True}
    claims = []
    for one in answer.get("claims") or ():
        count = len(one["devices"])
        consumed = one.get("consumed") or [None] * count
        claims.append({
            "devices": [tuple(device) for device in one["devices"]],
            "admin": [at in (one.get("admin") or ()) for at in range(count)],
            "consumed": [None if found is None else amounts(found) for found in consumed],
            "nodes": None if one.get("nodes") is None else _selector(node_selection({"nodeSelector": one["nodes"]})),
        })  # fmt: skip
    return {"invalid": bool(answer.get("invalid")), "claims": claims}


def _selector(nodes: NodeSelection) -> Any:
    (term,) = nodes.selector or ((),)
    name = NodeSelection(
        selector=(NodeAffinityTerm((), (LabelRequirement("metadata.name", LabelOperator.IN, ("",)),)),)
    )
    assert name
    if not term.match_expressions and len(term.match_fields) == 1 and term.match_fields[0].operator == LabelOperator.IN:
        return term.match_fields[0].values[0]
    return term


def ours(outcome: AllocationOutcome) -> Answer:
    """Return an outcome of the planner in the same form."""
    if isinstance(outcome, DeviceError):
        return {"error": True}
    if not isinstance(outcome, DevicesAllocated):
        kinds = {one.kind for one in outcome.refusals}
        if RefusalKind.STEPS in kinds:
            return {"timeout": True}
        return {"invalid": RefusalKind.INVALID_POOL in kinds, "claims": []}
    return {"invalid": False, "claims": list(map(_claim, outcome.claims))}


def _claim(one: ClaimAllocation) -> Answer:
    nodes: Any = None
    if one.nodes is not None:
        nodes = one.nodes.node_name or _selector(one.nodes)
    return {
        "devices": [(found.request, *found.device) for found in one.devices],
        "admin": [found.admin_access for found in one.devices],
        "consumed": [found.consumed if found.shared else None for found in one.devices],
        "nodes": nodes,
    }


def answers(document: Json, version: int) -> list[list[Answer]]:
    """Return what the planner answers to a document: of each pod on each node that it is asked about."""
    gates = features(document["features"], version)
    allocator = DeviceAllocator(
        map(device_slice, document.get("slices") or ()), map(device_class, document.get("classes") or ()), gates
    )
    nodes = [device_node(one) for one in document["nodes"]]
    state = AllocatedState()
    state.add(tuple(map(allocated_device, document.get("allocated") or ())))
    found = []
    for pod in document["pods"]:
        claims = allocator.prepare([device_claim(one) for one in pod])
        tried = []
        for node in nodes:
            outcome = allocator.allocate(node, claims, state)
            tried.append(ours(outcome))
            if isinstance(outcome, DevicesAllocated):
                state.add_all(outcome.claims)
                break
            if isinstance(outcome, DeviceError) or "timeout" in tried[-1]:
                break
        found.append(tried)
    return found
