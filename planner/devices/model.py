"""Values of the device allocator: what drivers publish, what claims ask for, and what an allocation answers.

All are immutable, equal by content, and hold strings resolved. Nothing is validated here.

Units: every quantity is an exact integer of nano-units (`*_nano`; "1Gi" is 2**30 * 10**9), since Kubernetes rounds
quantities up to nano. Names of attributes and capacities stay as the driver wrote them, "domain/id" or "id".

What many nodes publish alike should be one `DeviceSet`: answers of selectors are kept for each distinct
`DeviceContent`, and pools with the same device set share their tables.

The API server's defaults have to be applied before: allocation mode EXACT_COUNT, count 1, toleration operator Equal.
Source: k8s.io/api/resource/v1, v0.36.3.
"""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from trimtab.planner.model.values import NodeAffinityTerm

RESULTS_PER_CLAIM = 32
"""Devices in the allocation of one claim, at most (`AllocationResultsMaxSize`)."""


class DeviceId(NamedTuple):
    """A device of the cluster, by driver, pool and name."""

    driver: str
    pool: str
    device: str


class PoolId(NamedTuple):
    """A pool, by driver and name; two drivers may use one name."""

    driver: str
    pool: str


class AttributeKind(IntEnum):
    """The type of an attribute's value; a kind that the cluster's version does not know is UNKNOWN."""

    UNKNOWN = 0
    INT = 1
    BOOL = 2
    STRING = 3
    VERSION = 4
    INTS = 5
    BOOLS = 6
    STRINGS = 7
    VERSIONS = 8


SCALAR_KINDS = frozenset({AttributeKind.INT, AttributeKind.BOOL, AttributeKind.STRING, AttributeKind.VERSION})


@dataclass(frozen=True, slots=True)
class DeviceAttribute:
    """An attribute by `name`; `value` is an int, a bool or, for STRING and VERSION, a str; a tuple of these for lists;
    None for UNKNOWN.
    """

    name: str
    kind: AttributeKind
    value: int | bool | str | tuple[int | bool | str, ...] | None


@dataclass(frozen=True, slots=True)
class CapacityRange:
    """The amounts that may be requested: from `min_nano`, in steps of `step_nano`, to `max_nano`; None = not given."""

    min_nano: int | None = None
    max_nano: int | None = None
    step_nano: int | None = None


@dataclass(frozen=True, slots=True)
class CapacityPolicy:
    """How requests for a capacity are rounded. default_nano : consumed without a request, None = everything;
    valid_values_nano : ascending, None = not given; valid_range : None = not given.
    """

    default_nano: int | None = None
    valid_values_nano: tuple[int, ...] | None = None
    valid_range: CapacityRange | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """A capacity of a device by `name`."""

    name: str
    value_nano: int
    policy: CapacityPolicy | None = None


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that devices of a pool share; `counters` are (name, nano), each name once."""

    name: str
    counters: tuple[tuple[str, int], ...]


class TaintEffect(StrEnum):
    """The effects of device taints that keep devices from claims; all others are ignored."""

    NO_SCHEDULE = "NoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """A taint of a device; `effect` as written, since unknown ones are ignored."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes that reach a slice or a device. The first that is given counts: `node_name`, `all_nodes`, `selector`
    (terms of a node selector, any of which may match). With none of them no node does.
    """

    node_name: str = ""
    all_nodes: bool = False
    selector: tuple[NodeAffinityTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeviceContent:
    """All of a device but its name. attributes, capacities : each name once, in any order; consumes_counters : the name
    of a counter set with (counter, nano); taints : its own and those of taint rules (`taint_rules.with_taint_rules`);
    nodes : of the device, None = those of its slice; allow_multiple_allocations : shares of it can be given away;
    has_binding_conditions, binds_to_node : as published; in_compatibility_groups : some consumption of counters names
    such groups, so that schedulers from 1.37 on do not see the slice of the device.
    """

    attributes: tuple[DeviceAttribute, ...] = ()
    capacities: tuple[DeviceCapacity, ...] = ()
    consumes_counters: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    taints: tuple[DeviceTaint, ...] = ()
    nodes: NodeSelection | None = None
    allow_multiple_allocations: bool = False
    has_binding_conditions: bool = False
    binds_to_node: bool = False
    in_compatibility_groups: bool = False


@dataclass(frozen=True, slots=True)
class DeviceSet:
    """The devices of a slice in the order in which they were published: names[i] has contents[i]."""

    names: tuple[str, ...] = ()
    contents: tuple[DeviceContent, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSlice:
    """A ResourceSlice. generation, slice_count : of its pool; nodes : who reaches it; per_device_nodes : each device
    says that itself; counter_sets : shared counters, in slices without devices.
    """

    name: str
    driver: str
    pool: str
    generation: int = 0
    slice_count: int = 1
    nodes: NodeSelection = NodeSelection()
    per_device_nodes: bool = False
    devices: DeviceSet = DeviceSet()
    counter_sets: tuple[CounterSet, ...] = ()


class AllocationMode(StrEnum):
    """How many devices a request gets."""

    EXACT_COUNT = "ExactCount"
    ALL = "All"


@dataclass(frozen=True, slots=True)
class DeviceToleration:
    """A toleration of device taints; key "" = every key, effect "" = every effect; operator "Equal", "Exists" or ""."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSubRequest:
    """What devices are asked for: the content of `exactly`, or an alternative of `firstAvailable`.

    name : of the alternative, "" in `exactly`; selectors : CEL expressions, None = of a kind that is not known;
    mode : an `AllocationMode`, as written; capacity : (name, nano) of `capacity.requests`, None = not given;
    admin_access : None = not given, and never given in alternatives.
    """

    device_class: str
    name: str = ""
    selectors: tuple[str | None, ...] = ()
    mode: str = AllocationMode.EXACT_COUNT
    count: int = 1
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] | None = None
    admin_access: bool | None = None


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A request of a claim: `exactly`, or the first of the alternatives `first_available` for which there are devices.
    With alternatives, `exactly` is not looked at.
    """

    name: str
    exactly: DeviceSubRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceConstraint:
    """What devices of `requests` ("request" or "request/alternative", () = all) have in common: the value of
    `match_attribute`, or all different ones of `distinct_attribute`; "" = not given.
    """

    requests: tuple[str, ...] = ()
    match_attribute: str = ""
    distinct_attribute: str = ""


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """What a ResourceClaim asks for; `name` ("namespace/name") is used in texts only."""

    name: str
    requests: tuple[ClaimRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass: `selectors` are CEL expressions, None = of a kind that is not known."""

    name: str
    selectors: tuple[str | None, ...] = ()


class VersionBehavior(NamedTuple):
    """What schedulers do differently from some version on."""

    has_list_attributes: bool
    """Attributes may be lists; before, one is an error."""
    refuses_amounts: bool
    """Amounts of capacity without a representation, and negative ones, are errors."""
    counts_in_thousandths: bool
    """Amounts of capacity are multiples of thousandths where all bounds are; before, and elsewhere, of whole units."""
    remembers_all_values: bool
    """`distinctAttribute` remembers the values of all devices; before, only the last one of each request."""
    finds_counters_by_node: bool
    """Slices with counter sets are found like all others; before, they concern every node. Those with compatibility
    groups are not seen."""
    separates_pools: bool
    """Pools of several drivers with one name have counters of their own."""
    remembers_shares: bool
    """A device of which any shares are in use takes no counters again; before, only with shares of capacity."""
    counts_devices_in_use: bool
    """A request for all devices includes those whose capacity is in use, and so fails on them."""


_BEHAVIOR = {36: VersionBehavior(*8 * [False]), 37: VersionBehavior(*8 * [True])}
"""By minor version; older ones are like the first, newer ones like the last."""
LATEST_MINOR: Final = max(_BEHAVIOR)
"""The newest version of Kubernetes whose allocator is known."""


@dataclass(frozen=True, slots=True)
class DeviceFeatures:
    """What the cluster's scheduler can do. version : its minor version (36 for 1.36); the rest are feature gates, on by
    default in 1.36; fractional_capacity_range : from 1.37 on.
    """

    version: int = 36
    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    consumable_capacity: bool = True
    binding_conditions: bool = True
    fractional_capacity_range: bool = True

    @property
    def behavior(self) -> VersionBehavior:
        """What the version does differently."""
        return _BEHAVIOR[min(max(self.version, min(_BEHAVIOR)), LATEST_MINOR)]


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """The node that claims are allocated for; `labels` sorted by key."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device of an allocation. request : "request" or "request/alternative"; shared : a share of the device, not all
    of it; consumed : (capacity, nano) of a share, sorted by name.
    """

    request: str
    device: DeviceId
    admin_access: bool = False
    shared: bool = False
    consumed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimAllocation:
    """The allocation of one claim. nodes : from where the devices can be reached afterwards; None = from everywhere,
    otherwise one term, or the node's own name. devices : in the order of the claim's requests.
    """

    claim: str
    devices: tuple[AllocatedDevice, ...]
    nodes: NodeSelection | None


class RefusalKind(StrEnum):
    """Why a device, or a whole pool, is not used for a request."""

    NO_POOL = "NO_POOL"  # no pool can be reached from the node
    INCOMPLETE_POOL = "INCOMPLETE_POOL"  # slices of the pool are missing
    INVALID_POOL = "INVALID_POOL"  # slices of the pool contradict each other
    IN_USE = "IN_USE"  # another claim has the device
    SELECTOR = "SELECTOR"  # of the class or the request
    NODE = "NODE"  # the device is not for this node
    CAPACITY = "CAPACITY"  # too little left, or an amount that its policy does not allow
    COUNTER = "COUNTER"  # too little of a shared counter is left
    TAINT = "TAINT"  # not tolerated
    CONSTRAINT = "CONSTRAINT"  # of the claim
    LIMIT = "LIMIT"  # a claim has 32 devices at most
    STEPS = "STEPS"  # the search was given up


@dataclass(frozen=True, slots=True)
class DeviceRefusal:
    """`device_count` devices of a pool refuse a request for one reason. claim, request : by name; pool : None for
    reasons that concern no single pool; detail : for people, or "".
    """

    claim: str
    request: str
    pool: PoolId | None
    kind: RefusalKind
    device_count: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DevicesAllocated:
    """All claims get devices: `claims` in the order in which they were given."""

    claims: tuple[ClaimAllocation, ...]


@dataclass(frozen=True, slots=True)
class DevicesRefused:
    """The node does not have the devices; others may. refusals : of the request that the search could not get over,
    by pool in the order of the search, the most frequent kind of a pool first. Never empty.
    """

    refusals: tuple[DeviceRefusal, ...]


@dataclass(frozen=True, slots=True)
class DeviceError:
    """The input makes no sense on any node, so the scheduler gives the pod up with an error. object : for instance
    "ResourceClaim ns/name", "DeviceClass gpu" or "ResourceSlice x"; field : its path in the object; text : for people.
    """

    object: str
    field: str
    text: str

    @property
    def in_words(self) -> str:
        """All of it, for people; a claim without a name is its kind alone."""
        return f"{self.object.strip()}, {self.field}: {self.text}"


AllocationOutcome = DevicesAllocated | DevicesRefused | DeviceError


class DeviceInputError(Exception):
    """Raised inside the package where a `DeviceError` is the answer."""

    def __init__(self, error: DeviceError) -> None:
        super().__init__(f"{error.object}: {error.field}: {error.text}")
        self.error = error


@dataclass(slots=True)
class PoolUse:
    """What allocations hold of the devices of one pool, by device name. exclusive : number of claims that have all of
    it (1 unless the input is inconsistent); shares : of claims that have a part; capacity_shares : of those, shares
    with consumed capacity; consumed : device to capacity to nano, of devices in `capacity_shares`.
    """

    exclusive: dict[str, int] = field(default_factory=dict)
    shares: dict[str, int] = field(default_factory=dict)
    capacity_shares: dict[str, int] = field(default_factory=dict)
    consumed: dict[str, dict[str, int]] = field(default_factory=dict)


class AllocatedState:
    """All devices in use, of allocated claims. `add` and `remove` are exact inverses of each other in any order, so
    what a claim holds is free for a while by `remove` of its results. A result with admin access counts for nothing.
    Each costs O(devices of the allocation).
    """

    __slots__ = ("pools",)

    def __init__(self) -> None:
        self.pools: dict[PoolId, PoolUse] = {}

    def add(self, devices: tuple[AllocatedDevice, ...]) -> None:
        """Count the devices of an allocated claim as in use."""
        for device in devices:
            if not device.admin_access:
                self._change(device, 1)

    def remove(self, devices: tuple[AllocatedDevice, ...]) -> None:
        """Take back `add` of the same devices."""
        for device in devices:
            if not device.admin_access:
                self._change(device, -1)

    def add_all(self, allocations: tuple[ClaimAllocation, ...]) -> None:
        """Count all allocations of an outcome."""
        for allocation in allocations:
            self.add(allocation.devices)

    def _change(self, device: AllocatedDevice, sign: int) -> None:
        pool = PoolId(device.device.driver, device.device.pool)
        use = self.pools.get(pool)
        if use is None:
            use = self.pools[pool] = PoolUse()
        name = device.device.device
        if not device.shared:
            _count(use.exclusive, name, sign)
            return
        _count(use.shares, name, sign)
        if not device.consumed:
            return
        _count(use.capacity_shares, name, sign)
        sums = use.consumed.setdefault(name, {})
        for capacity, amount in device.consumed:
            sums[capacity] = sums.get(capacity, 0) + sign * amount
        if name not in use.capacity_shares:
            del use.consumed[name]


def _count(counts: dict[str, int], name: str, sign: int) -> None:
    count = counts.get(name, 0) + sign
    if count < 0:
        raise ValueError(f"device {name} is given back more often than it was taken")
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)
