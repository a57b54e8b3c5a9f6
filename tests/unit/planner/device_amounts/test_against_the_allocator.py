"""Where claims are counted, amounts say what the allocator says: on each node, beside others, and pod after pod."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.device_snapshots import DRIVER, ClaimRow, DeviceWorld
from tests.builders.rows import NodeRow, PodRow
from tests.builders.snapshots import Cluster, write
from trimtab.planner.decisions.fit import check_fit
from trimtab.planner.device_amounts.cluster_allocator import ClusterAllocator
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.device_amounts.pod_claims import takes_nothing
from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.model import (
    AllocatedState,
    AttributeKind,
    ClaimRequest,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceContent,
    DeviceNode,
    DevicesAllocated,
    DeviceSet,
    DeviceSlice,
    DeviceSubRequest,
    DeviceTaint,
    NodeSelection,
)
from trimtab.planner.model.values import PodClaim, PodRequirements, is_device_resource
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.columns import ClassOfDevices, Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

CLASSES = (
    ClassOfDevices("any", (f'device.driver == "{DRIVER}"',), "", 0),
    ClassOfDevices("small", (f'device.attributes["{DRIVER}"].model == "small"',), "", 0),
)
CONTENTS = st.builds(
    lambda model, is_broken: DeviceContent(
        attributes=(DeviceAttribute("model", AttributeKind.STRING, model),),
        taints=(DeviceTaint("broken", "", "NoSchedule"),) if is_broken else (),
    ),
    st.sampled_from(["small", "small", "big"]),
    st.sampled_from([False, False, False, True]),
)
PLAIN = st.builds(
    lambda device_class, count: ClaimRequest("r", DeviceSubRequest(device_class, count=count)),
    st.sampled_from(["any", "small"]),
    st.integers(1, 3),
)
ONE_ANY = DeviceSubRequest("any", "b")
ADMIN = st.builds(
    lambda device_class, count: DeviceClaim(
        "", (ClaimRequest("r", DeviceSubRequest(device_class, count=count, admin_access=True)),)
    ),
    st.sampled_from(["any", "small"]),
    st.integers(1, 3),
)
OTHER = st.sampled_from(
    [
        DeviceClaim("", (ClaimRequest("r", DeviceSubRequest("any", mode="All")),)),
        DeviceClaim("", (ClaimRequest("r", None, (DeviceSubRequest("any", "a", count=3), ONE_ANY)),)),
        DeviceClaim("", (ClaimRequest("r", DeviceSubRequest("any", count=2)),), (DeviceConstraint((), "model"),)),
    ]
)  # fmt: skip
CLAIMS = st.one_of(PLAIN.map(lambda request: DeviceClaim("", (request,))), OTHER, ADMIN)


@dataclass(frozen=True)
class Drawn:
    """Devices of each node, and pods: what they claim, and a node on which each is put if there are devices."""

    devices: list[list[DeviceContent]]
    pods: list[tuple[DeviceClaim, int]]


DRAWN = st.builds(
    Drawn,
    st.lists(st.lists(CONTENTS, max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(CLAIMS, st.integers(0, 3)), min_size=1, max_size=5),
)


def cluster_of(drawn: Drawn) -> Cluster:
    """Put pods on their nodes one after the other, as the scheduler would; the others wait."""
    names = [f"n{at}" for at in range(len(drawn.devices))]
    slices = tuple(
        DeviceSlice(
            f"s{name}", DRIVER, name, 1, 1, NodeSelection(name),
            devices=DeviceSet(tuple(f"d{at}" for at in range(len(contents))), tuple(contents)),
        )
        for name, contents in zip(names, drawn.devices, strict=True)
    )  # fmt: skip
    allocator = DeviceAllocator(slices, [DeviceClass(one.name, one.selectors) for one in CLASSES])
    state, pods, claims = AllocatedState(), {}, []
    for at, (claim, where) in enumerate(drawn.pods):
        name = f"p{at}"
        spec = PodRequirements(claims=(PodClaim("c", "", claim, ""),))
        pods["ns", name] = PodRow(spec=spec)
        if where < len(names):
            found = allocator.allocate(DeviceNode(names[where]), allocator.prepare([claim]), state)
            if isinstance(found, DevicesAllocated):
                state.add_all(found.claims)
                devices = found.claims[0].devices
                claims.append(
                    ClaimRow("ns", f"{name}-c", claim, name, "c", devices, NodeSelection(names[where]), (name,))
                )
                pods["ns", name] = PodRow(spec=spec, node=names[where])
    world = DeviceWorld(slices, CLASSES, tuple(claims), minor=36)
    return Cluster(pods=pods, nodes={name: NodeRow() for name in names}, devices=world)


def is_alone(drawn: Drawn) -> bool:
    """Return whether all pods that take devices have the same claims, so that they are counted exactly."""
    return len({claim for claim, _ in drawn.pods if not takes_nothing((claim,))}) <= 1


def free_for(snapshot: Snapshot, pod: int) -> np.ndarray:
    """Return what is free on each node, beside all pods but one."""
    free = snapshot.nodes.allocatable.copy()
    place = {name: at for at, name in enumerate(snapshot.resources)}
    for other, node in enumerate(snapshot.pods.node.tolist()):
        if node >= 0 and other != pod:
            for name, amount in snapshot.specs[snapshot.pods.spec[other]].requests:
                free[node, place[name]] -= amount
    return free


@given(DRAWN)
def test_a_pod_fits_by_amounts_where_the_allocator_finds_devices(drawn: Drawn) -> None:
    sent = canonicalize(write(cluster_of(drawn)))
    planned, allocator = planned_snapshot(sent).snapshot, ClusterAllocator(sent)
    for pod in range(len(sent.pods.spec)):
        spec = planned.specs[planned.pods.spec[pod]]
        if spec.unsupported:
            continue
        free = free_for(planned, pod)
        found = allocator.outcomes(pod, range(len(sent.nodes.name)))
        for node, outcome in found.items():
            enough = all(
                free[node, planned.resources.index(name)] >= amount
                for name, amount in spec.requests
                if is_device_resource(name)
            )
            fits = isinstance(outcome, DevicesAllocated)
            assert enough == fits if is_alone(drawn) else enough <= fits


@example(
    Drawn(
        [[DeviceContent()] * 3],
        [
            (DeviceClaim("", (ClaimRequest("r", DeviceSubRequest("any")),)), 0),
            (DeviceClaim("", (ClaimRequest("r", None, (DeviceSubRequest("any", "a", count=3), ONE_ANY)),)), 1),
        ],
    )
)
@given(DRAWN)
def test_fit_says_of_each_pod_and_node_what_the_allocator_says(drawn: Drawn) -> None:
    """Whether its claims are counted exactly, counted with care beside others, or not at all."""
    sent = canonicalize(write(cluster_of(drawn)))
    allocator, keys = ClusterAllocator(sent), [sent.pod_key(pod) for pod in range(len(sent.pods.spec))]
    answers = check_fit(planned_snapshot(sent).snapshot, plan_pb2.PlanRequest(fit_pods=keys), Work(), sent)
    for pod, answer in enumerate(answers):
        found = allocator.outcomes(pod, range(len(sent.nodes.name)))
        fits = {sent.nodes.name[node]: isinstance(outcome, DevicesAllocated) for node, outcome in found.items()}
        assert {one.node: one.fits for one in answer.nodes} == fits


@given(DRAWN)
def test_pods_that_fit_by_amounts_one_after_the_other_get_devices_in_this_order(drawn: Drawn) -> None:
    """All counted pods leave, and are put on the first node with enough, by amounts and by the allocator."""
    cluster = cluster_of(replace(drawn, pods=[(claim, 99) for claim, _ in drawn.pods]))
    sent = canonicalize(write(cluster))
    planned = planned_snapshot(sent).snapshot
    free, place = planned.nodes.allocatable.copy(), {name: at for at, name in enumerate(planned.resources)}
    allocator = DeviceAllocator(cluster.devices.slices, [DeviceClass(one.name, one.selectors) for one in CLASSES])
    state = AllocatedState()
    for pod in range(len(sent.pods.spec)):
        spec = planned.specs[planned.pods.spec[pod]]
        if spec.unsupported:
            continue
        (claim,) = sent.specs[sent.pods.spec[pod]].claims
        assert isinstance(claim.spec, DeviceClaim)
        for node, name in enumerate(sent.nodes.name):
            enough = all(free[node, place[resource]] >= amount for resource, amount in spec.requests)
            found = allocator.allocate(DeviceNode(name), allocator.prepare([claim.spec]), state)
            fits = isinstance(found, DevicesAllocated)
            assert enough == fits if is_alone(drawn) else enough <= fits
            if enough and isinstance(found, DevicesAllocated):
                state.add_all(found.claims)
                for resource, amount in spec.requests:
                    free[node, place[resource]] -= amount
                break
