"""Whole plans over random devices are certified: no node has pods whose claims its devices cannot serve together."""

from dataclasses import dataclass, replace
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from tests.builders.device_snapshots import (
    GPU_CLASS,
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
from tests.certificates import scale_down, scale_up, whole_plan
from trimtab.planner.decisions.plan import plan as take_decisions
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedState,
    AttributeKind,
    ClaimRequest,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceContent,
    DeviceNode,
    DevicesAllocated,
    DeviceSlice,
    DeviceSubRequest,
    NodeSelection,
)
from trimtab.planner.model.values import Owner, PodClaim, PodRequirements
from trimtab.planner.round.work import Work
from trimtab.planner.snapshot.columns import TemplateSlice
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

UNSCHEDULABLE = 32
"""Flag of a pod that the scheduler could not place."""
NANO = 10**9
BIG, SMALL, SHARED = (
    DeviceContent((DeviceAttribute("profile", AttributeKind.STRING, text),)) for text in ("big", "small", "shared")
)
SHARES = replace(SHARED, capacities=(DeviceCapacity("bandwidth", 10 * NANO),), allow_multiple_allocations=True)
ROOM = {"cpu": 4_000, "memory": 1 << 34, "pods": 20}
DECISIONS = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)


def devices_of(kind: str, node: str) -> tuple[DeviceSlice, ...]:
    """Return the slices of a node."""
    if kind == "partitions":
        return mig_slices(node, 1, ("1g", "2g", "4g"))
    contents = {"big": (BIG,) * 3, "mixed": (SMALL, BIG, SMALL, BIG), "shared": (SHARES,) * 2, "none": ()}[kind]
    one = gpu_slice(node, len(contents))
    return (replace(one, devices=replace(one.devices, contents=contents)),) if contents else ()


KINDS = st.sampled_from(["partitions", "big", "mixed", "shared", "none"])
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
    devices."""

    nodes: list[str]
    new: str
    pods: list[tuple[DeviceClaim, int]]


DRAWN = st.builds(
    Drawn, st.lists(KINDS, min_size=1, max_size=3), KINDS,
    st.lists(st.tuples(CLAIMS, st.integers(0, 4)), min_size=1, max_size=6),
)  # fmt: skip


def cluster_of(drawn: Drawn) -> Cluster:
    """Put pods on their nodes one after the other, as the scheduler would; the others wait."""
    names = [f"n{at}" for at in range(len(drawn.nodes))]
    slices = tuple(chain.from_iterable(map(devices_of, drawn.nodes, names)))
    allocator = DeviceAllocator(slices, [DeviceClass(GPU_CLASS.name, GPU_CLASS.selectors)])
    state, pods, claims = AllocatedState(), {}, []
    for at, (wanted, where) in enumerate(drawn.pods):
        name = f"p{at}"
        pod = PodRow(
            uid=f"u{at}", spec=PodRequirements(requests=(("cpu", 100),), claims=(PodClaim("c", "", wanted, ""),))
        )
        pod, node = pod._replace(owner="web", phase=2), names[where] if where < len(names) else ""
        found = allocator.allocate(DeviceNode(node), allocator.prepare([wanted]), state) if node else None
        if isinstance(found, DevicesAllocated):
            state.add_all(found.claims)
            devices, nodes = found.claims[0].devices, NodeSelection(node)
            claims.append(ClaimRow("ns", f"{name}-c", wanted, name, "c", devices, nodes, (name,)))
            pods["ns", name] = pod._replace(node=node)
        else:
            pods["ns", name] = pod._replace(phase=1, flags=UNSCHEDULABLE)
    new = [TemplateSlice(one.driver, "", one.devices, one.counter_sets, False) for one in devices_of(drawn.new, "new")]
    world = DeviceWorld(slices, (GPU_CLASS,), tuple(claims), templates=(("g", tuple(new)),), minor=36)
    owner = Owner("web", "ReplicaSet", "web", "ns", len(pods), len(pods), "apps/v1", None, "", 0, None)
    row = NodeRow(allocatable=ROOM, capacity=ROOM, group="g", ready=True)
    group = Group(min_size=0, max_size=9, target_size=len(names), template=NodeRow(allocatable=ROOM))
    return Cluster(
        pods=pods, nodes=dict.fromkeys(names, row), groups={"g": group}, owners={"web": owner}, devices=world
    )


@given(DRAWN)
def test_pods_with_claims_of_all_kinds_are_placed_where_all_of_them_get_devices(drawn: Drawn) -> None:
    message = write(cluster_of(drawn))
    settings = settings_of({"scaleDown": {"unneededTime": "0s", "utilizationThreshold": 1.0}})
    request = plan_pb2.PlanRequest(decisions=DECISIONS, settings=settings)
    request.now.seconds = NOW_S
    answer = take_decisions(planned_snapshot(canonicalize(message)).snapshot, request, None, Work())
    assert scale_up.offences(message, settings, answer.scale_up, NOW_S) == []
    assert scale_down.offences(message, settings, answer.scale_down, NOW_S) == []
    assert whole_plan.offences(message, settings, answer, NOW_S) == []
