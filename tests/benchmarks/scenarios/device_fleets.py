"""Scale-up of one node group beside a fleet whose devices are in use: inputs of the Cluster Autoscaler's own benchmark.

Source: kubernetes-sigs/cluster-autoscaler, pull request 53, binpacking_estimator_dra_benchmark_test.go and
binpacking_estimator_dra_profiles_test.go in pkg/estimator (Apache 2.0): numbers of nodes, devices, claims and pods,
sizes of nodes and pods, drivers, classes and selectors. Nodes of the fleet are full here, since that benchmark looks at
new nodes only. "devices" is the counting of all devices and claims anew, which the Cluster Autoscaler does for each
placement; "total" includes it. `python -m tests.benchmarks.device_fleets` prints seconds of CPU as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.scenarios.scale_up import Growing, full_nodes, group, waiting
from tests.benchmarks.scenarios.scale_up import prepare as prepare_scale_up
from tests.builders.device_snapshots import ClaimRow, DeviceWorld
from tests.builders.snapshots import Cluster
from trimtab.places import count_places
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AttributeKind,
    ClaimRequest,
    DeviceAttribute,
    DeviceClaim,
    DeviceContent,
    DeviceId,
    DeviceSet,
    DeviceSlice,
    DeviceSubRequest,
    NodeSelection,
)
from trimtab.planner.model.values import PodClaim, PodRequirements
from trimtab.planner.service.session import CachedSnapshot
from trimtab.planner.snapshot.columns import ClassOfDevices, TemplateSlice
from trimtab.v1 import plan_pb2

MOST_IN_SLICE = 128
PODS_ON_NODE = 110


class Driver(NamedTuple):
    """A driver that publishes devices on every node. attributes : of each, beside version and index."""

    name: str
    device_class: str
    devices: int
    attributes: int


@dataclass(frozen=True)
class Fleet:
    """Nodes, claims that hold devices of the first driver, or do not yet, and pods that wait for so many devices each.
    sharing : how many pods share a claim."""

    nodes: int
    drivers: tuple[Driver, ...]
    claims_per_node: int
    pods: int
    devices_per_claim: int = 1
    cpu_milli: int = 64_000
    memory_bytes: int = 256_000
    sharing: int = 1
    held: bool = True

    @property
    def new_nodes(self) -> int:
        """How many new nodes the pods need."""
        on_one = min(self.cpu_milli // 500, PODS_ON_NODE)
        if self.devices_per_claim:
            on_one = min(on_one, self.sharing * (self.drivers[0].devices // self.devices_per_claim))
        return -(-self.pods // on_one)


GPU = Driver("gpu.nvidia.com", "gpu.nvidia.com", 8, 4)
PLAIN = Driver("driver.example.com", "gpu", 8, 0)
FLEETS = {
    "1,000 nodes, 4,000 claims": Fleet(1_000, (PLAIN,), 4, 200, cpu_milli=16_000, memory_bytes=64_000),
    "5,000 nodes, 20,000 claims": Fleet(5_000, (PLAIN,), 4, 500, cpu_milli=16_000, memory_bytes=64_000),
    "gpu8": Fleet(500, (GPU,), 4, 300),
    "whole nodes": Fleet(500, (GPU,), 1, 200, devices_per_claim=8),
    "mig56": Fleet(300, (GPU._replace(device_class="mig.nvidia.com", devices=56, attributes=5),), 20, 300),
    "256 devices": Fleet(200, (GPU._replace(device_class="mig.nvidia.com", devices=256, attributes=3),), 40, 200),
    "three drivers": Fleet(
        400,
        (
            GPU,
            Driver("dra.net", "dra.net", 4, 6),
            Driver("compute-domain.nvidia.com", "compute-domain-default-channel.nvidia.com", 2, 2),
        ),
        4,
        250,
    ),
    "shared claims": Fleet(400, (GPU,), 4, 240, sharing=4),
    "many claims, few pods": Fleet(400, (GPU,), 30, 3),
    "claims without devices": Fleet(400, (GPU,), 30, 200, held=False),
    "pods without claims": Fleet(400, (GPU,), 30, 300, devices_per_claim=0),
}


def device_sets(driver: Driver) -> list[DeviceSet]:
    """Return the devices of the slices of one node."""
    names, contents = [], []
    for at in range(driver.devices):
        names.append(f"{driver.name}-dev-{at}")
        texts = [("driverVersion", "560.35.03"), *((f"attr{one}", f"value-{one}") for one in range(driver.attributes))]
        found = [DeviceAttribute(name, AttributeKind.STRING, text) for name, text in texts]
        contents.append(DeviceContent((DeviceAttribute("index", AttributeKind.INT, at), *found)))
    return [
        DeviceSet(tuple(names[first : first + MOST_IN_SLICE]), tuple(contents[first : first + MOST_IN_SLICE]))
        for first in range(0, driver.devices, MOST_IN_SLICE)
    ]


def asked(fleet: Fleet, count: int) -> DeviceClaim:
    """Return what a claim asks for."""
    first = fleet.drivers[0]
    selector = (f'device.driver == "{first.name}"',)
    return DeviceClaim(
        "", (ClaimRequest("req", DeviceSubRequest(first.device_class, selectors=selector, count=count)),)
    )


def held(fleet: Fleet, node: str) -> Iterator[ClaimRow]:
    """Yield the claims of a node's pods."""
    first, spec = fleet.drivers[0], asked(fleet, 1)
    for at in range(fleet.claims_per_node):
        device = DeviceId(first.name, f"{node}-{first.name}", f"{first.name}-dev-{at % first.devices}")
        row = ClaimRow("default", f"running-{node}-{at:02}", spec)
        if fleet.held:
            row = row._replace(nodes=NodeSelection(node), devices=(AllocatedDevice("req", device),))
        yield row


def pods_and_claims(fleet: Fleet) -> tuple[list[PodRequirements], list[ClaimRow]]:
    """Return the specs of the pods that wait, in turn, and the claims that they share."""
    plain = PodRequirements(requests=(("cpu", 500), ("memory", 1000)))
    if not fleet.devices_per_claim:
        return [plain], []
    claim = asked(fleet, fleet.devices_per_claim)
    if fleet.sharing == 1:
        return [plain._replace(claims=(PodClaim("c", "", claim, ""),))], []
    shared = [ClaimRow("default", f"shared-{at:03}", claim) for at in range(-(-fleet.pods // fleet.sharing))]
    return [plain._replace(claims=(PodClaim("c", one.name, None, ""),)) for one in shared], shared


def cluster_of(fleet: Fleet) -> Cluster:
    """Build the cluster."""
    nodes = full_nodes(fleet.nodes)
    sets = {one: device_sets(one) for one in fleet.drivers}
    slices = [
        DeviceSlice(
            f"{name}-{driver.name}-slice-{at}", driver.name, f"{name}-{driver.name}", 1, len(sets[driver]),
            NodeSelection(name), devices=devices,
        )
        for name in nodes for driver in fleet.drivers for at, devices in enumerate(sets[driver])
    ]  # fmt: skip
    new = [TemplateSlice(one.name, "", devices, (), False) for one in fleet.drivers for devices in sets[one]]
    classes = [
        ClassOfDevices(one.device_class, (f'device.driver == "{one.name}"',) if one is not PLAIN else (), "", 0)
        for one in fleet.drivers
    ]
    specs, shared = pods_and_claims(fleet)
    claims = [claim for name in nodes for claim in held(fleet, name)] + shared
    world = DeviceWorld(tuple(slices), tuple(classes), tuple(claims), templates=(("g", tuple(new)),))
    amounts = {"cpu": fleet.cpu_milli, "memory": fleet.memory_bytes, "pods": PODS_ON_NODE}
    pods = waiting(fleet.pods, specs, [{}])
    return Cluster(nodes=nodes, groups={"g": group(amounts, "a", 1.0)}, pods=pods, devices=world)


def run(made: Growing, stages: Stages) -> plan_pb2.PlanResponse:
    """Count devices and claims, and decide; nothing is known but the decoded snapshot."""
    with stages.stage("total"):
        with stages.stage("devices"):
            kept = CachedSnapshot(made.kept.snapshot).planned()
        return Growing(made.cluster, kept, made.request, made.cache).plan(stages)


def verify(made: Growing, answer: plan_pb2.PlanResponse, fleet: Fleet) -> None:
    """All pods get devices, on as few new nodes as can be."""
    (split,) = answer.scale_up.splits
    assert count_places(answer.scale_up.places).new == fleet.pods
    assert split.new_size - split.current_size == fleet.new_nodes
    assert len(made.cluster.nodes) == fleet.nodes


for label, one in FLEETS.items():
    scenario(
        name=f"device fleet: {label}",
        what=f"scale-up of {one.pods} pods with devices: new nodes of one group, beside {one.nodes:,} nodes",
        setup=partial(prepare_scale_up, partial(cluster_of, one)),
        run=run,
        verify=partial(verify, fleet=one),
    )
