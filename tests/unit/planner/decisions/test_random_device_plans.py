"""Whole plans over random devices are certified: no node has pods whose claims its devices cannot serve together."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.device_snapshots import (
    DRIVER,
    GPU_CLASS,
    MIG,
    ClaimRow,
    DeviceWorld,
    claim,
    gpu_slice,
    mig_slices,
    partition,
)
from tests.builders.rows import NodeRow, PodRow
from tests.builders.scale_up import NOW_S, settings_of
from tests.builders.snapshots import Cluster, Group, write
from tests.certificates import cluster as certified
from tests.certificates import scale_down, scale_up, whole_plan
from tests.certificates.device_claims import DeviceClaims
from trimtab.places import destinations
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedState,
    AttributeKind,
    CapacityPolicy,
    CapacityRange,
    ClaimRequest,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceContent,
    DeviceFeatures,
    DeviceNode,
    DevicesAllocated,
    DeviceSlice,
    DevicesRefused,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    NodeSelection,
)
from trimtab.planner.model.values import Owner, PodClaim, PodRequirements
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import ClassOfDevices, TemplateSlice
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, snapshot_pb2

UNSCHEDULABLE = 32
"""Flag of a pod that the scheduler could not place."""
NANO = 10**9
BIG, SMALL, SHARED = (
    DeviceContent((DeviceAttribute("profile", AttributeKind.STRING, text),)) for text in ("big", "small", "shared")
)
SHARES = replace(SHARED, capacities=(DeviceCapacity("bandwidth", 10 * NANO),), allow_multiple_allocations=True)
NIC, NUMA = "nic.example.com", "example.com/numa"
CLASSES = (
    GPU_CLASS,
    ClassOfDevices("nic", (f'device.driver == "{NIC}"',), "", 0),
    ClassOfDevices("any", (), "", 0),
)
NAMES = ("n0", "n1", "n2")
ROOM = {"cpu": 4_000, "memory": 1 << 34, "pods": 20}
MAY_BE_LESS = (
    "said to fail DEVICES_NOT_AVAILABLE", "said to fail UNSUPPORTED_CONSTRAINT", "is not UNSUPPORTED_CONSTRAINT",
)  # fmt: skip
"""What a plan may say of claims that compete although the allocator finds devices (docs/jobs.md)."""
DECISIONS = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)


def on_numa(numa: str, profile: str = "big", **more: Any) -> DeviceContent:
    """Return a device next to some memory."""
    texts = {"profile": profile, NUMA: numa}
    attributes = tuple(DeviceAttribute(name, AttributeKind.STRING, text) for name, text in texts.items())
    return DeviceContent(attributes, **more)


def with_capacities(numa: str, **policies: CapacityPolicy) -> DeviceContent:
    """Return a device of which shares can be given away, with a policy for each of its capacities."""
    capacities = tuple(DeviceCapacity(name, 10 * NANO, policy) for name, policy in policies.items())
    return on_numa(numa, "shared", capacities=capacities, allow_multiple_allocations=True)


STEPS = CapacityPolicy(2 * NANO, None, CapacityRange(2 * NANO, 6 * NANO, 2 * NANO))
VALUES = CapacityPolicy(None, (1 * NANO, 4 * NANO, 8 * NANO), None)
BROKEN = (DeviceTaint("broken", "", "NoSchedule"),)
CONTENTS = {
    "big": (BIG,) * 3,
    "mixed": (SMALL, BIG, SMALL, BIG),
    "shared": (SHARES,) * 2,
    "none": (),
    "numa": (on_numa("a"), on_numa("a"), on_numa("b", "small"), on_numa("b")),
    "one numa": (on_numa("a"), on_numa("a", "small")),
    "tainted": (on_numa("a", taints=BROKEN), on_numa("b"), on_numa("b", taints=BROKEN)),
    "policies": (with_capacities("a", bandwidth=STEPS), with_capacities("b", bandwidth=VALUES)),
    "two policies": (with_capacities("a", bandwidth=STEPS, slots=VALUES),) * 2,
}


PARTITIONED = {
    "partitions": (1, ("1g", "2g", "4g"), False),
    "one GPU": (1, tuple(MIG), False),
    "two GPUs": (2, tuple(MIG), False),
    "two by size": (2, tuple(MIG), True),
}
"""GPUs, sizes of partitions, and whether these are published by size."""


def devices_of(kinds: tuple[str, ...], node: str) -> tuple[DeviceSlice, ...]:
    """Return the slices of a node. kinds : of its GPUs, and of its network cards."""
    found: list[DeviceSlice] = []
    for kind, driver in zip(kinds, (DRIVER, NIC), strict=False):
        if kind in PARTITIONED:
            gpus, sizes, is_mixed = PARTITIONED[kind]
            found += mig_slices(node, gpus, sizes, is_mixed=is_mixed)
        elif contents := CONTENTS[kind]:
            one = gpu_slice(node, len(contents), driver=driver)
            found.append(replace(one, devices=replace(one.devices, contents=contents)))
    return tuple(found)


KINDS = st.tuples(st.sampled_from(["partitions", "big", "mixed", "shared", "none"]))
EITHER = (DeviceSubRequest("gpu", "three", count=3), DeviceSubRequest("gpu", "one"))
CLAIMS = st.sampled_from(
    [
        claim(),
        claim(2),
        partition("big"),
        partition("1g"),
        partition("2g"),
        partition("4g"),
        claim(mode="All"),
        DeviceClaim("", (ClaimRequest("gpu", None, EITHER),)),
        claim(capacity=(("bandwidth", 3 * NANO),)),
    ]
)


@dataclass(frozen=True)
class Drawn:
    """Devices of each node and of a new one, and pods: what they claim, and the node on which each is put if there are
    devices. minor : version of Kubernetes."""

    nodes: list[tuple[str, ...]]
    new: tuple[str, ...]
    pods: list[tuple[tuple[DeviceClaim, ...], int]]
    minor: int = 36


DRAWN = st.builds(
    Drawn, st.lists(KINDS, min_size=1, max_size=3), KINDS,
    st.lists(st.tuples(st.tuples(CLAIMS), st.integers(0, 4)), min_size=1, max_size=6),
)  # fmt: skip


def constrained(*requests: ClaimRequest, **constraint: Any) -> DeviceClaim:
    """Return a claim whose devices have something in common."""
    return DeviceClaim("", requests, (DeviceConstraint(**constraint),))


def request_for(name: str, of_class: str = "gpu", **more: Any) -> ClaimRequest:
    return ClaimRequest(name, DeviceSubRequest(of_class, **more))


def of_profile(text: str) -> tuple[str]:
    return (f'device.attributes["{DRIVER}"].profile == "{text}"',)


WITHOUT_AMOUNTS = [
    claim(),
    claim(2),
    claim(1, "nic"),
    claim(3, "any"),
    claim(admin_access=True),
    claim(2, "any", admin_access=True),
    claim(tolerations=(DeviceToleration("broken", "Exists"),)),
    partition("small"),
    partition("2g"),
    DeviceClaim("", (request_for("gpu"), request_for("nic", "nic"))),
    DeviceClaim("", (ClaimRequest("gpu", None, EITHER),)),
    constrained(request_for("gpu"), request_for("nic", "nic"), match_attribute=NUMA),
    constrained(request_for("gpu", count=2), match_attribute=NUMA),
    constrained(request_for("one"), request_for("two"), distinct_attribute=NUMA),
    constrained(request_for("gpu", count=2), request_for("nic", "nic"), match_attribute=NUMA, requests=("gpu",)),
    constrained(
        ClaimRequest("gpu", None, (
            DeviceSubRequest("gpu", "big", selectors=of_profile("big"), count=2), DeviceSubRequest("gpu", "one"),
        )),
        request_for("nic", "nic"), match_attribute=NUMA, requests=("gpu/one", "nic"),
    ),
]  # fmt: skip
AMOUNTS = [
    claim(mode="All"),
    claim(1, "any", capacity=(("bandwidth", 3 * NANO),)),
    claim(1, "any", capacity=(("bandwidth", NANO),)),
    claim(2, "any", capacity=(("bandwidth", 5 * NANO), ("slots", 2 * NANO))),
    claim(1, "nic", capacity=(("slots", 9 * NANO),)),
]
NODE_OF_DRIVERS = st.tuples(
    st.sampled_from(["numa", "one numa", "tainted", "policies", "two policies", "partitions", "mixed", "none"]),
    st.sampled_from(["none", "none", "numa", "one numa", "policies", "big"]),
)


def several_drivers(minor: int, kinds: list[DeviceClaim]) -> st.SearchStrategy[Drawn]:
    """Return clusters with devices of two drivers; pods have up to two of some kinds of claims."""
    few = st.lists(st.sampled_from(kinds), min_size=1, max_size=3).flatmap(
        lambda some: st.lists(
            st.tuples(st.lists(st.sampled_from(some), min_size=1, max_size=2).map(tuple), st.integers(0, 3)),
            min_size=1,
            max_size=6,
        )
    )
    nodes = st.lists(NODE_OF_DRIVERS, min_size=1, max_size=3)
    return st.builds(Drawn, nodes, NODE_OF_DRIVERS, few, st.just(minor))


def allocator_of(slices: tuple[DeviceSlice, ...], minor: int) -> DeviceAllocator:
    """Return the allocator of a version of Kubernetes."""
    classes = [DeviceClass(one.name, one.selectors) for one in CLASSES]
    return DeviceAllocator(slices, classes, DeviceFeatures(version=minor))


def cluster_of(drawn: Drawn) -> Cluster:
    """Put pods on their nodes one after the other, as the scheduler would; the others wait."""
    names = NAMES[: len(drawn.nodes)]
    slices = tuple(chain.from_iterable(map(devices_of, drawn.nodes, names)))
    allocator = allocator_of(slices, drawn.minor)
    state, pods, claims = AllocatedState(), {}, []
    for at, (wanted, where) in enumerate(drawn.pods):
        name = f"p{at:02}"
        own = tuple(PodClaim(f"c{number}", "", one, "") for number, one in enumerate(wanted))
        pod = PodRow(uid=f"u{at}", spec=PodRequirements(requests=(("cpu", 100),), claims=own))
        pod, node = pod._replace(owner="web", phase=2), names[where] if where < len(names) else ""
        found = allocator.allocate(DeviceNode(node), allocator.prepare(wanted), state) if node else None
        if isinstance(found, DevicesAllocated):
            state.add_all(found.claims)
            here = NodeSelection(node)
            claims += [
                ClaimRow("ns", f"{name}-c{number}", one, name, f"c{number}", got.devices, here, (name,))
                for number, (one, got) in enumerate(zip(wanted, found.claims, strict=True))
            ]
            pods["ns", name] = pod._replace(node=node)
        else:
            pods["ns", name] = pod._replace(phase=1, flags=UNSCHEDULABLE)
    new = [TemplateSlice(one.driver, "", one.devices, one.counter_sets, False) for one in devices_of(drawn.new, "new")]
    world = DeviceWorld(slices, CLASSES, tuple(claims), templates=(("g", tuple(new)),), minor=drawn.minor)
    owner = Owner("web", "ReplicaSet", "web", "ns", len(pods), len(pods), "apps/v1", None, "", 0, None)
    row = NodeRow(allocatable=ROOM, capacity=ROOM, ready=True)
    # A node that lacks a driver of its group counts as not ready, so it gets a group of its own.
    needed, drivers = {one.driver for one in new}, {name: set[str]() for name in names}
    for one in slices:
        drivers[one.nodes.node_name].add(one.driver)
    nodes = {name: row._replace(group="g" if needed <= drivers[name] else name) for name in names}
    sizes = Counter(one.group for one in nodes.values())
    groups = {
        name: Group(min_size=0, max_size=9, target_size=sizes[name], template=NodeRow(allocatable=ROOM))
        for name in {"g", *sizes}
    }
    return Cluster(pods=pods, nodes=nodes, groups=groups, owners={"web": owner}, devices=world)


def is_less(offence: str) -> bool:
    """Return whether an offence is that a plan uses less than the allocator finds."""
    return offence.endswith(MAY_BE_LESS) or offence.startswith("no_place: ")


SETTINGS = settings_of({"scaleDown": {"unneededTime": "0s", "utilizationThreshold": 1.0}})


def offences(drawn: Drawn) -> list[str]:
    """Return what is wrong with the plan of a cluster."""
    message, answer = planned(drawn)
    return [
        *scale_up.offences(message, SETTINGS, answer.scale_up, NOW_S),
        *scale_down.offences(message, SETTINGS, answer, NOW_S),
        *whole_plan.offences(message, SETTINGS, answer, NOW_S),
    ]


def planned(drawn: Drawn) -> tuple[snapshot_pb2.ClusterSnapshot, plan_pb2.PlanResponse]:
    """Return a cluster and its plan."""
    message = write(cluster_of(drawn))
    request = plan_pb2.PlanRequest(decisions=DECISIONS, settings=SETTINGS)
    request.now.seconds = NOW_S
    return message, plan_devices(planned_snapshot(canonicalize(message)), request, None, Work()).answer


PARTITIONS = st.tuples(st.sampled_from([kind for kind in PARTITIONED if kind != "partitions"]))
MIXTURES = st.builds(
    Drawn, st.lists(PARTITIONS, min_size=1, max_size=3), PARTITIONS,
    st.lists(
        st.tuples(st.tuples(st.sampled_from([partition(size) for size in MIG])), st.integers(0, 4)),
        min_size=3, max_size=16,
    ),
)  # fmt: skip


def refused(drawn: Drawn) -> list[str]:
    """Return the pods of a plan to which the allocator gives nothing, where they come in the scheduler's order."""
    message, answer = planned(drawn)
    plan = scale_up.Plan(message, SETTINGS, answer.scale_up, NOW_S)
    moves = destinations(answer.scale_down.places)
    at = {pod.key: node for node, pods in plan.end().on.items() for pod in pods} | moves
    held = {f"ns/{row.pod}": row.devices or () for row in cluster_of(drawn).devices.claims}
    out = []
    for node in sorted(set(at.values())):
        kinds, name = (drawn.nodes[NAMES.index(node)], node) if node in NAMES else (drawn.new, "new")
        allocator, state = allocator_of(devices_of(kinds, name), drawn.minor), AllocatedState()
        here = sorted(key for key, where in at.items() if where == node)
        coming = [key for key in here if key not in held or key in moves]
        for key in here:
            if key not in coming:
                state.add(held[key])
        for key in sorted(coming, key=lambda key: (key in moves, key)):
            wanted = drawn.pods[int(key.removeprefix("ns/p"))][0]
            outcome = allocator.allocate(DeviceNode(name), allocator.prepare(wanted), state)
            if isinstance(outcome, DevicesAllocated):
                state.add_all(outcome.claims)
            else:
                out.append(f"{key} on {node}")
    return out


TWO_AND_FOUR = [((partition("2g"),), 1), ((partition("2g"),), 0), ((partition("4g"),), 3)]


@example(Drawn([("two by size",)], ("two by size",), TWO_AND_FOUR))
@given(MIXTURES)
def test_partitions_of_several_sizes_that_a_plan_mixes_on_a_node_are_given_in_the_schedulers_order(
    drawn: Drawn,
) -> None:
    assert refused(drawn) == []


@given(MIXTURES)
def test_plans_that_mix_partitions_of_several_sizes_are_certified(drawn: Drawn) -> None:
    assert [one for one in offences(drawn) if not is_less(one)] == []


@given(DRAWN)
def test_pods_with_claims_of_all_kinds_are_placed_where_all_of_them_get_devices(drawn: Drawn) -> None:
    assert offences(drawn) == []


@given(several_drivers(37, WITHOUT_AMOUNTS) | several_drivers(36, [*WITHOUT_AMOUNTS, *AMOUNTS]))
def test_pods_with_claims_of_several_drivers_and_requests_are_placed_where_all_of_them_get_devices(
    drawn: Drawn,
) -> None:
    assert [one for one in offences(drawn) if not is_less(one)] == []


@given(several_drivers(37, WITHOUT_AMOUNTS) | several_drivers(36, [*WITHOUT_AMOUNTS, *AMOUNTS]))
def test_the_certificate_allows_a_pod_on_an_empty_node_where_the_allocator_finds_devices(drawn: Drawn) -> None:
    waiting = replace(drawn, pods=[(wanted, len(drawn.nodes)) for wanted, _ in drawn.pods])
    cluster = certified.Cluster(write(cluster_of(waiting)))
    claims, slices = DeviceClaims(cluster), tuple(chain.from_iterable(map(devices_of, drawn.nodes, NAMES)))
    allocator = allocator_of(slices, drawn.minor)
    for at, (wanted, _) in enumerate(drawn.pods):
        for node in NAMES[: len(drawn.nodes)]:
            outcome = allocator.allocate(DeviceNode(node), allocator.prepare(wanted), AllocatedState())
            is_allowed = not claims.offence([cluster.pods[f"ns/p{at:02}"]], node)
            if isinstance(outcome, DevicesAllocated):
                assert is_allowed
            elif isinstance(outcome, DevicesRefused) and not any(map(is_lenient, wanted)):
                assert not is_allowed


def is_lenient(wanted: DeviceClaim) -> bool:
    """Return whether the certificate allows more: who administrates takes nothing there, also for the pod's other
    requests."""
    return any(one.exactly is not None and one.exactly.admin_access for one in wanted.requests)
