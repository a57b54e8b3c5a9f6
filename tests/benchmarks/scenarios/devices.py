"""Plans over a cluster with devices of dynamic resource allocation: eight on each node, half of them claimed, each by a
pod of its own. And pods that wait for one device each, served by new nodes of ten groups.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from tests.benchmarks.clusters import LARGE, snapshot
from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.scenarios.planning import Planning, prepare, run, verify
from tests.benchmarks.scenarios.scale_up import GIB, Growing, full_nodes, group, waiting
from tests.benchmarks.scenarios.scale_up import prepare as prepare_scale_up
from tests.benchmarks.scenarios.scale_up import run as run_growth
from tests.builders.device_snapshots import DRIVER, GPU_CLASS, ClaimRow, DeviceWorld, device, gpu_slice, write_devices
from tests.builders.snapshots import Cluster
from trimtab.clients.cluster_generator import ClusterShape
from trimtab.places import count_places
from trimtab.planner.device_amounts.cluster_devices import resource_of_class
from trimtab.planner.device_amounts.planned import PlannedDevices, planned_snapshot
from trimtab.planner.devices.model import ClaimRequest, DeviceClaim, DeviceConstraint, DeviceSubRequest, NodeSelection
from trimtab.planner.model.values import PodClaim, PodRequirements
from trimtab.planner.slack.specs import write_claim_spec
from trimtab.planner.snapshot.columns import Snapshot, TemplateSlice
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, snapshot_pb2

DEVICES_PER_NODE, CLAIMS_PER_NODE = 8, 4
ONE_GPU = DeviceClaim("", (ClaimRequest("gpu", DeviceSubRequest("gpu")),))
TWO_ALIKE = DeviceClaim("", (ClaimRequest("gpu", DeviceSubRequest("gpu", count=2)),), (DeviceConstraint((), "model"),))
WAITING = 500


def with_devices(message: snapshot_pb2.ClusterSnapshot) -> snapshot_pb2.ClusterSnapshot:
    """Give each node eight devices, of which the first four pods there hold one each."""
    pods, strings = message.pods, message.strings
    node_of = np.frombuffer(pods.node, "<i4")
    spec = np.frombuffer(pods.spec, "<i4").copy()
    ends = np.cumsum(np.frombuffer(pods.name_lengths, "<i4")).tolist()
    namespace = np.frombuffer(pods.namespace, "<i4")
    held: dict[int, int] = {}
    copies: dict[int, int] = {}
    claims = []
    for pod, at in enumerate(node_of.tolist()):
        if not at or held.get(at, 0) == CLAIMS_PER_NODE:
            continue
        name = pods.names[ends[pod - 1] if pod else 0 : ends[pod]].decode()
        number, where = held.setdefault(at, 0), strings[at]
        held[at] = number + 1
        if spec[pod] not in copies:
            copies[int(spec[pod])] = len(message.pod_specs)
            made = message.pod_specs.add()
            made.CopyFrom(message.pod_specs[spec[pod]])
            claim = made.claims.add(name="gpu")
            write_claim_spec(claim.spec, ONE_GPU)
        spec[pod] = copies[int(spec[pod])]
        space = strings[namespace[pod]]
        found = (device(where, number),)
        claims.append(ClaimRow(space, f"{name}-gpu", ONE_GPU, name, "gpu", found, NodeSelection(where), (name,)))
    pods.spec = spec.tobytes()
    slices = sorted([gpu_slice(one.name, DEVICES_PER_NODE) for one in message.nodes], key=lambda one: one.name)
    claims.sort(key=lambda one: (one.namespace, one.name))
    # Clients send rows in this order.
    message.devices.CopyFrom(write_devices(DeviceWorld(tuple(slices), (GPU_CLASS,), tuple(claims)), None))
    return message


def prepare_plan(shape: ClusterShape) -> Planning:
    """Make the cluster of a plan, with devices."""
    made = prepare(shape)
    return replace(made, snapshot=with_devices(snapshot(shape)))


def prepare_amounts(shape: ClusterShape) -> Snapshot:
    """Make the cluster of a plan, with a pod whose claim for two devices that are alike competes with all others."""
    message = with_devices(snapshot(shape))
    made = message.pod_specs.add()
    made.CopyFrom(message.pod_specs[1])
    write_claim_spec(made.claims.add(name="gpu").spec, TWO_ALIKE)
    spec = np.frombuffer(message.pods.spec, "<i4").copy()
    spec[-1] = len(message.pod_specs) - 1
    message.pods.spec = spec.tobytes()
    return canonicalize(message)


def count(sent: Snapshot, stages: Stages) -> PlannedDevices:
    """Count all devices anew."""
    with stages.stage("count"):
        return planned_snapshot(sent)


def verify_amounts(sent: Snapshot, planned: PlannedDevices) -> None:
    """All devices count, and claims of one and of two devices have amounts of their own and one in common."""
    snapshot = planned.snapshot
    column = snapshot.resources.index(resource_of_class(GPU_CLASS.name))
    assert snapshot.nodes.capacity[:, column].sum() == DEVICES_PER_NODE * len(sent.nodes.name)
    assert len(planned.resources) == 3


def waiting_pods() -> Cluster:
    """Pods that wait for a device each, beside full nodes; ten groups declare new nodes with eight devices."""
    spec = PodRequirements(requests=(("cpu", 500),), claims=(PodClaim("gpu", "", ONE_GPU, ""),))
    groups = {f"g{at}": group({"cpu": 16_000, "memory": 64 * GIB, "pods": 110}, "a", 1.0 + at / 10) for at in range(10)}
    slices = (TemplateSlice(DRIVER, "", gpu_slice("t", DEVICES_PER_NODE).devices, (), False),)
    nodes = full_nodes(1_000)
    world = DeviceWorld(
        tuple([gpu_slice(name, DEVICES_PER_NODE) for name in nodes]),
        (GPU_CLASS,),
        tuple(
            [
                ClaimRow(
                    "default", f"held-{name}-{at}", ONE_GPU, devices=(device(name, at),), nodes=NodeSelection(name)
                )
                for name in nodes
                for at in range(CLAIMS_PER_NODE)
            ]
        ),
        templates=tuple([(name, slices) for name in groups]),
    )
    return Cluster(nodes=nodes, groups=groups, pods=waiting(WAITING, [spec], [{}]), devices=world)


def prepare_growth() -> Growing:
    """Make the cluster, as the service keeps it."""
    made = prepare_scale_up(waiting_pods)
    return replace(made, kept=made.kept.planned())


def verify_growth(_: Growing, answer: plan_pb2.PlanResponse) -> None:
    """Each new node has eight of the pods."""
    splits = answer.scale_up.splits
    assert count_places(answer.scale_up.places).new == WAITING
    assert sum(split.new_size - split.current_size for split in splits) == -(-WAITING // DEVICES_PER_NODE)


scenario(
    name="plan 5,000 nodes, devices",
    what="as `plan 5,000 nodes`, with 40,000 devices and 20,000 claims of pods",
    setup=partial(prepare_plan, LARGE),
    run=run,
    verify=verify,
    aims={"simulate": 0.065},
)
scenario(
    name="count 20,000 claims that compete",
    what="devices of 5,000 nodes as amounts, where claims for one device compete with claims for two that are alike",
    setup=partial(prepare_amounts, LARGE),
    run=count,
    verify=verify_amounts,
    aims={"count": 0.1},
)
scenario(
    name="grow for 500 claims",
    what="scale-up of 500 pods with one device each: new nodes of ten groups, beside 1,000 nodes with 8,000 devices",
    setup=prepare_growth,
    run=run_growth,
    verify=verify_growth,
    aims={"total": 0.05},
)
