"""Kinds of claims: how many of one kind a node has is what the allocator gives; kinds that compete add up."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.device_snapshots import (
    DRIVER,
    GPU_CLASS,
    MIG,
    ClaimRow,
    claiming,
    gpu_slice,
    mig_slices,
    partition,
    world,
)
from tests.builders.examples import examples
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, Group, write
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.device_amounts.cluster_devices import features_of
from trimtab.planner.device_amounts.node_pools import NodePoolReader
from trimtab.planner.device_amounts.planned import NO_LIMITS, MixtureLimits, planned_snapshot
from trimtab.planner.device_amounts.pod_claims import uses_of_nodes
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AllocatedState,
    AttributeKind,
    ClaimRequest,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceContent,
    DeviceId,
    DeviceNode,
    DevicesAllocated,
    DeviceSlice,
    DeviceSubRequest,
    NodeSelection,
)
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import Snapshot, TemplateSlice
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

CLASSES = [DeviceClass(GPU_CLASS.name, GPU_CLASS.selectors)]
NODE = DeviceNode("a")
UNSCHEDULABLE = 32
"""Flag of a pod that the scheduler could not place."""


@dataclass(frozen=True)
class Partitioned:
    """A node with GPUs, partitions that are in use, and those of one size that pods want."""

    gpus: int
    is_mixed: bool
    used: list[str]
    left: list[int]
    wanted: str


SIZES = st.lists(st.sampled_from(list(MIG)), max_size=14)
DRAWN = st.builds(
    Partitioned, st.integers(1, 3), st.booleans(), SIZES, st.lists(st.integers(0, 20), max_size=6), SIZES.filter(bool)
)


def placed(slices: tuple[DeviceSlice, ...], claims: Sequence[DeviceClaim]) -> list[ClaimRow]:
    """Return the claims that get devices one after the other, held by nobody that the planner may move."""
    allocator, state, rows = DeviceAllocator(slices, CLASSES), AllocatedState(), list[ClaimRow]()
    for at, one in enumerate(claims):
        found = allocator.allocate(NODE, allocator.prepare([one]), state)
        if isinstance(found, DevicesAllocated):
            state.add_all(found.claims)
            rows.append(ClaimRow("ns", f"c{at}", one, devices=found.claims[0].devices, nodes=NodeSelection("a")))
    return rows


def planned_with(slices: tuple[DeviceSlice, ...], wanted: Sequence[DeviceClaim], held: Sequence[ClaimRow]) -> Snapshot:
    pods = {("ns", f"p{at:02}"): PodRow(spec=claiming(one)) for at, one in enumerate(wanted)}
    cluster = Cluster(pods=pods, nodes={"a": NodeRow()}, devices=world(*slices, claims=tuple(held), minor=36))
    return planned_snapshot(canonicalize(write(cluster))).snapshot


def spec_of(snapshot: Snapshot, pod: int) -> PodRequirements:
    names = [snapshot.pods.name.get(at) for at in range(len(snapshot.pods.spec))]
    return snapshot.specs[snapshot.pods.spec[names.index(f"p{pod:02}")]]


def fitting(snapshot: Snapshot, count: int) -> list[int]:
    """Return the pods that fit on the node by amounts, one after the other."""
    free = dict(zip(snapshot.resources, snapshot.nodes.allocatable[0].tolist(), strict=True))
    found = []
    for pod in range(count):
        requests = spec_of(snapshot, pod).requests
        if all(free.get(name, 0) >= amount for name, amount in requests):
            found.append(pod)
            for name, amount in requests:
                free[name] -= amount
    return found


@given(DRAWN)
@examples(40)
def test_as_many_claims_of_one_kind_fit_as_the_allocator_gives_beside_what_is_in_use(drawn: Partitioned) -> None:
    slices = mig_slices("a", drawn.gpus, is_mixed=drawn.is_mixed)
    held = placed(slices, [partition(size) for size in drawn.used])
    # Some go again, so that gaps stay.
    held = [one for at, one in enumerate(held) if at not in drawn.left]
    snapshot = planned_with(slices, [partition(drawn.wanted)] * 22, held)
    allocator, state = DeviceAllocator(slices, CLASSES), AllocatedState()
    for one in held:
        state.add(one.devices or ())
    count = 0
    while True:
        outcome = allocator.allocate(NODE, allocator.prepare([partition(drawn.wanted)]), state)
        if not isinstance(outcome, DevicesAllocated):
            break
        state.add_all(outcome.claims)
        count += 1
    assert len(fitting(snapshot, 22)) == count


@pytest.mark.parametrize("limits", [NO_LIMITS, MixtureLimits(is_one_kind=True)], ids=["mixed", "one kind a node"])
def test_claims_of_several_kinds_share_a_node_unless_it_is_for_one_kind(limits: MixtureLimits) -> None:
    pods = {
        ("ns", f"p{size}"): PodRow(phase=1, flags=UNSCHEDULABLE, spec=claiming(partition(size)))
        for size in ("1g", "2g", "3g")
    }
    new = [TemplateSlice(one.driver, "", one.devices, one.counter_sets, False) for one in mig_slices("new", 1)]
    groups = {"g": Group(max_size=9, target_size=0, template=NodeRow())}
    declared = replace(world(minor=36), templates=(("g", tuple(new)),))
    sent = canonicalize(write(Cluster(pods=pods, groups=groups, devices=declared)))
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP])
    planned = plan_devices(planned_snapshot(sent, limits=limits), request, None, Work())
    (split,) = planned.answer.scale_up.splits
    assert split.new_size == (3 if limits.is_one_kind else 1)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        pytest.param(["1g"] * 28 + ["7g"] * 4, 32, id="small ones first"),
        pytest.param(["7g"] * 4 + ["1g"] * 28, 32, id="large ones first"),
        pytest.param(["3g"] * 8 + ["7g"] * 4, 12, id="halves"),
        pytest.param(["2g"] * 12 + ["7g"] * 4, 16, id="thirds"),
        pytest.param(["4g"] * 4 + ["7g"] * 4, 8, id="one of them in each"),
    ],
)
def test_two_sizes_fill_a_node_with_eight_partitioned_gpus(wanted: list[str], count: int) -> None:
    snapshot = planned_with(mig_slices("a", 8), [partition(size) for size in wanted], ())
    assert len(fitting(snapshot, len(wanted))) == count


def test_equal_pods_that_want_two_sizes_each_fill_a_node_where_no_others_want_partitions() -> None:
    large, small = (partition(size).requests[0] for size in ("4g", "3g"))
    both = DeviceClaim("", (replace(large, name="large"), replace(small, name="small")))
    assert len(fitting(planned_with(mig_slices("a", 8), [both] * 9, ()), 9)) == 8


def test_most_of_what_is_possible_with_five_sizes_is_planned() -> None:
    """All mixtures of up to two of each size on two GPUs: planned by amounts, of those that the allocator gives."""
    slices = mig_slices("a", 2)
    allocator = DeviceAllocator(slices, CLASSES)
    sizes = list(MIG)
    totals: Counter[str] = Counter()
    snapshot = planned_with(slices, [partition(size) for size in sizes for _ in range(2)], ())
    for counts in product(range(3), repeat=len(sizes)):
        wanted = [size for size, count in zip(sizes, counts, strict=True) for _ in range(count)]
        state, is_possible = AllocatedState(), True
        for size in wanted:
            found = allocator.allocate(NODE, allocator.prepare([partition(size)]), state)
            is_possible = is_possible and isinstance(found, DevicesAllocated)
            if isinstance(found, DevicesAllocated):
                state.add_all(found.claims)
        free = dict(zip(snapshot.resources, snapshot.nodes.allocatable[0].tolist(), strict=True))
        asked: Counter[str] = Counter()
        for size in wanted:
            asked.update(dict(spec_of(snapshot, 2 * sizes.index(size)).requests))
        is_planned = all(free[name] >= amount for name, amount in asked.items())
        assert is_planned <= is_possible
        totals.update(possible=is_possible, planned=is_planned)
    assert totals["planned"] >= 0.9 * totals["possible"], totals


PAIR = DeviceClaim(
    "", (ClaimRequest("r", DeviceSubRequest("gpu", count=2)),), (DeviceConstraint((), f"{DRIVER}/model"),)
)
ALL = DeviceClaim("", (ClaimRequest("r", DeviceSubRequest("gpu", mode="All")),))


@pytest.mark.parametrize(("other", "count"), [(ALL, 1), (PAIR, 4)], ids=["all devices", "two that are alike"])
def test_single_devices_keep_a_whole_node_beside_claims_that_only_the_allocator_decides(
    other: DeviceClaim, count: int
) -> None:
    content = DeviceContent(attributes=(DeviceAttribute("model", AttributeKind.STRING, "x"),))
    slices = (gpu_slice("a", 8, content),)
    single = DeviceClaim("", (ClaimRequest("r", DeviceSubRequest("gpu")),))
    snapshot = planned_with(slices, [single] * 8 + [other], ())
    assert fitting(snapshot, 9) == list(range(8))
    snapshot = planned_with(slices, [other] * count + [single], ())
    assert fitting(snapshot, count + 1) == list(range(count))


def test_devices_of_one_name_in_two_pools_of_a_node_are_told_apart() -> None:
    slices, held, claim = [], [], DeviceClaim("", (ClaimRequest("device", DeviceSubRequest("gpu")),))
    for node, used in (("a", "0"), ("b", "1"), ("c", "0")):
        names = [f"{node}{at}" for at in range(2)]
        slices += [replace(gpu_slice(node, 1), name=name, pool=name) for name in names]
        device = AllocatedDevice("device", DeviceId(DRIVER, node + used, slices[-1].devices.names[0]))
        held.append(ClaimRow("ns", node, claim, devices=(device,), nodes=NodeSelection(node)))
    cluster = Cluster(nodes={name: NodeRow() for name in "abc"}, devices=world(*slices, claims=tuple(held), minor=36))
    sent = canonicalize(write(cluster))
    pools = NodePoolReader(features_of(sent.devices)).read_cluster(sent.devices, sent.nodes.name, lambda _: ())
    assert {use[0].pool: nodes.tolist() for use, nodes in uses_of_nodes(sent.devices, pools)} == {0: [0, 2], 1: [1]}
