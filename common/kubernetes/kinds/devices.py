"""Devices and claims of them (dynamic resource allocation), with the defaults of the API server applied.

Source: Kubernetes API, resource/v1 (v1beta2 has the same fields), resource/v1alpha3 and v1beta2 (DeviceTaintRule);
pkg/apis/resource/v1/defaults.go. Configuration for drivers, and what they report of devices, is not declared.
"""

from msgspec import Struct, field

from trimtab.common.kubernetes.kinds.metadata import Int, NodeSelector, ObjectMeta, Quantities, Time

EXACT_COUNT = "ExactCount"
"""Default of `allocationMode`."""


class SliceAttribute(Struct, gc=False, omit_defaults=True):
    """A value, of one of these types; lists are those of the feature gate DRAListTypeAttributes."""

    int_value: Int | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: list[Int] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


class RequestRange(Struct, gc=False, omit_defaults=True):
    """Amounts that may be requested, as a range."""

    min: str | Int | float | None = None
    max: str | Int | float | None = None
    step: str | Int | float | None = None


class RequestPolicy(Struct, rename="camel", gc=False, omit_defaults=True):
    """Amounts of a capacity that may be requested."""

    default: str | Int | float | None = None
    valid_values: list[str | Int | float] | None = None
    valid_range: RequestRange | None = None


class SliceCapacity(Struct, rename="camel", gc=False, omit_defaults=True):
    """A capacity of a device."""

    value: str | Int | float | None = None
    request_policy: RequestPolicy | None = None


class DeviceCounter(Struct, gc=False, omit_defaults=True):
    """A counter, or what a device takes of it."""

    value: str | Int | float | None = None


class DeviceCounterSet(Struct, gc=False, omit_defaults=True):
    """Counters that devices of a pool share."""

    name: str | None = None
    counters: dict[str, DeviceCounter] | None = None


class CounterConsumption(Struct, rename="camel", gc=False, omit_defaults=True):
    """What a device takes of one set of counters."""

    counter_set: str | None = None
    counters: dict[str, DeviceCounter] | None = None


class SliceTaint(Struct, rename="camel", gc=False, omit_defaults=True):
    """A taint of a device."""

    key: str | None = None
    value: str | None = None
    effect: str | None = None
    time_added: Time | None = None


class SliceDevice(Struct, rename="camel", gc=False, omit_defaults=True):
    """A device of a slice."""

    name: str | None = None
    attributes: dict[str, SliceAttribute] | None = None
    capacity: dict[str, SliceCapacity] | None = None
    consumes_counters: list[CounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[SliceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(Struct, rename="camel", gc=False, omit_defaults=True):
    """The pool that a slice is a part of."""

    name: str | None = None
    generation: Int | None = None
    resource_slice_count: Int | None = None


class ResourceSliceSpec(Struct, rename="camel", gc=False, omit_defaults=True):
    """`spec` of a slice."""

    driver: str | None = None
    pool: ResourcePool | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[SliceDevice] | None = None
    shared_counters: list[DeviceCounterSet] | None = None


class ResourceSlice(Struct, gc=False):
    """Some of the devices of a pool, or their counters."""

    metadata: ObjectMeta | None = None
    spec: ResourceSliceSpec | None = None


class CelSelector(Struct, gc=False, omit_defaults=True):
    """An expression over a device."""

    expression: str | None = None


class DeviceSelector(Struct, gc=False, omit_defaults=True):
    """What a device must be like."""

    cel: CelSelector | None = None


class DeviceClassSpec(Struct, rename="camel", gc=False, omit_defaults=True):
    """`spec` of a class."""

    selectors: list[DeviceSelector] | None = None
    extended_resource_name: str | None = None


class ResourceDeviceClass(Struct, gc=False):
    """A class of devices."""

    metadata: ObjectMeta | None = None
    spec: DeviceClassSpec | None = None


class RequestToleration(Struct, gc=False, omit_defaults=True):
    """A toleration of device taints."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class CapacityRequests(Struct, gc=False, omit_defaults=True):
    """Amounts of capacities."""

    requests: Quantities | None = None


class ExactRequest(Struct, rename="camel", gc=False, omit_defaults=True):
    """Devices of one class."""

    device_class_name: str | None = None
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str | None = None
    count: Int | None = None
    admin_access: bool | None = None
    tolerations: list[RequestToleration] | None = None
    capacity: CapacityRequests | None = None

    def __post_init__(self) -> None:
        self.allocation_mode = self.allocation_mode or EXACT_COUNT
        if self.allocation_mode == EXACT_COUNT:
            self.count = self.count or 1


class AlternativeRequest(ExactRequest, gc=False, omit_defaults=True):
    """One of the alternatives of a request; it has no `adminAccess`."""

    name: str | None = None


class DeviceRequest(Struct, rename="camel", gc=False, omit_defaults=True):
    """A request of a claim, in one of two forms."""

    name: str | None = None
    exactly: ExactRequest | None = None
    first_available: list[AlternativeRequest] | None = None


class RequestConstraint(Struct, rename="camel", gc=False, omit_defaults=True):
    """What devices of several requests have in common, or not."""

    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ClaimedDevices(Struct, gc=False, omit_defaults=True):
    """The devices that a claim asks for."""

    requests: list[DeviceRequest] | None = None
    constraints: list[RequestConstraint] | None = None


class ResourceClaimSpec(Struct, gc=False, omit_defaults=True):
    """`spec` of a claim."""

    devices: ClaimedDevices | None = None


class ResultDevice(Struct, rename={"admin_access": "adminAccess", "share_id": "shareID",
                                      "consumed_capacity": "consumedCapacity",
                                      "binding_conditions": "bindingConditions",
                                      "binding_failure_conditions": "bindingFailureConditions"},
                      gc=False, omit_defaults=True):  # fmt: skip
    """A device that a claim has, or a share of it."""

    request: str | None = None
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    admin_access: bool | None = None
    share_id: str | None = None
    consumed_capacity: Quantities | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None


class AllocationDevices(Struct, gc=False, omit_defaults=True):
    """The devices that a claim has."""

    results: list[ResultDevice] | None = None


class AllocationResult(Struct, rename="camel", gc=False, omit_defaults=True):
    """What a claim has. node_selector : the nodes where pods can use it; None = all."""

    devices: AllocationDevices | None = None
    node_selector: NodeSelector | None = None


class ClaimConsumer(Struct, rename="camel", gc=False, omit_defaults=True):
    """An object that uses a claim: a pod, or a group of pods."""

    api_group: str | None = None
    resource: str | None = None
    name: str | None = None
    uid: str | None = None


class DeviceCondition(Struct, gc=False, omit_defaults=True):
    """A condition of a device that a claim has."""

    type: str | None = None
    status: str | None = None


class DeviceStatus(Struct, rename={"share_id": "shareID"}, gc=False, omit_defaults=True):
    """What a driver reports of a device that a claim has."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    share_id: str | None = None
    conditions: list[DeviceCondition] | None = None


class ResourceClaimStatus(Struct, rename="camel", gc=False, omit_defaults=True):
    """`status` of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: list[ClaimConsumer] | None = None
    devices: list[DeviceStatus] | None = None


class ResourceClaim(Struct, gc=False):
    """A claim of devices."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None
    status: ResourceClaimStatus | None = None


class ResourceClaimTemplateSpec(Struct, gc=False, omit_defaults=True):
    """`spec` of a template: what its claims are like."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimSpec | None = None


class ResourceClaimTemplate(Struct, gc=False):
    """From which a claim is made for each pod that refers to it."""

    metadata: ObjectMeta | None = None
    spec: ResourceClaimTemplateSpec | None = None


class DeviceTaintSelector(Struct, gc=False, omit_defaults=True):
    """Devices by name; what is absent restricts nothing."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Struct, rename="camel", gc=False, omit_defaults=True):
    """`spec` of a rule."""

    device_selector: DeviceTaintSelector | None = None
    taint: SliceTaint | None = None


class DeviceTaintRule(Struct, gc=False):
    """A taint that an administrator adds to devices."""

    metadata: ObjectMeta | None = None
    spec: DeviceTaintRuleSpec | None = None
