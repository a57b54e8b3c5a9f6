"""The actuator as external cloud provider over a real control plane: growth and deletion as the Cluster Autoscaler
orders them, and an actuator that dies in between.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import command, listed, running, serving, until
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.actuator.cloud.kwok.groups import CAPACITY_ANNOTATION
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect

pytestmark = pytest.mark.e2e

SLOW_S = 120.0
GROUP = "pool"


@contextmanager
def provider(directory: Path, options: list[str]) -> Iterator[Any]:
    """An actuator, called as the Cluster Autoscaler calls it; killed in the end."""
    with running(directory, options) as (process, client):
        serving(process, client)
        address = (directory / "address").read_text().strip()
        with connect(address, ChannelSecurity()) as channel:
            make_stub: Any = pb_grpc.CloudProviderStub
            yield make_stub(channel)


def nodes(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in listed(plane, "nodes")}


def is_tainted(plane: ControlPlane, name: str) -> bool:
    taints = nodes(plane).get(name, {}).get("spec", {}).get("taints", [])
    return any(taint["key"] == HARD_TAINT_KEY for taint in taints)


def size(provider: Any) -> int:
    return int(provider.NodeGroupTargetSize(pb.NodeGroupTargetSizeRequest(id=GROUP)).target_size)


def delete(provider: Any, node: dict[str, Any]) -> None:
    order = pb.ExternalGrpcNode(name=node["metadata"]["name"], provider_id=node["spec"]["providerID"])
    provider.NodeGroupDeleteNodes(pb.NodeGroupDeleteNodesRequest(id=GROUP, nodes=[order]))


def test_a_deletion_outlives_the_actuator_and_keeps_its_taint_when_the_autoscaler_gives_up(
    plane: ControlPlane, tmp_path: Path
) -> None:
    directory = tmp_path / "actuator"
    options = command(plane, directory, [workloads.group(GROUP, 10)], "--serve-externalgrpc", "--instance-delete=30")
    with provider(directory, options) as first:
        first.NodeGroupIncreaseSize(pb.NodeGroupIncreaseSizeRequest(id=GROUP, delta=3))
        assert size(first) == 3
        until(lambda: len(nodes(plane)) == 3, SLOW_S, "three nodes")
        leaving = nodes(plane)[f"{GROUP}-2"]
        name = leaving["metadata"]["name"]
        plane.kubectl("taint", "node", name, f"{HARD_TAINT_KEY}=1:NoSchedule")
        plane.kubectl("cordon", name)
        delete(first, leaving)
        assert size(first) == 2
    # Without an answer the Cluster Autoscaler takes both off.
    plane.kubectl("taint", "node", name, f"{HARD_TAINT_KEY}-")
    plane.kubectl("uncordon", name)
    with provider(directory, options) as second:
        until(lambda: is_tainted(plane, name), SLOW_S, "the taint is back")
        delete(second, leaving)
        assert size(second) == 2
        until(lambda: name not in nodes(plane), SLOW_S, "the node is gone")
        delete(second, leaving)
        assert (size(second), len(nodes(plane))) == (2, 2)
        found = second.NodeGroupNodes(pb.NodeGroupNodesRequest(id=GROUP)).instances
        assert [one.id for one in found] == [f"kwok://{GROUP}/{GROUP}-1", f"kwok://{GROUP}/{GROUP}-3"]


def instances(provider: Any, group: str) -> dict[str, Any]:
    """Return the instances of a group that are not being deleted, by id, as the Cluster Autoscaler reads them."""
    provider.Refresh(pb.RefreshRequest())
    found = provider.NodeGroupNodes(pb.NodeGroupNodesRequest(id=group)).instances
    return {one.id: one for one in found if one.status.instance_state != pb.InstanceStatus.INSTANCE_DELETING}


@pytest.mark.parametrize("count", [2, 25], ids=["few, looked up one by one", "so many that all nodes are listed"])
def test_instances_without_node_go_under_the_names_that_the_autoscaler_gives_them(
    plane: ControlPlane, tmp_path: Path, count: int
) -> None:
    """The Cluster Autoscaler names an instance that never registered, or failed to start, by its provider id."""
    name = f"short{count}"
    group = workloads.group(name, 40, pool=name)
    group["metadata"]["annotations"] = {CAPACITY_ANNOTATION: "2"}
    options = command(plane, tmp_path / "actuator", [group], "--serve-externalgrpc")
    with provider(tmp_path / "actuator", options) as made:
        made.NodeGroupIncreaseSize(pb.NodeGroupIncreaseSizeRequest(id=name, delta=2))
        until(lambda: {f"{name}-1", f"{name}-2"} <= nodes(plane).keys(), SLOW_S, "two nodes")
        made.NodeGroupIncreaseSize(pb.NodeGroupIncreaseSizeRequest(id=name, delta=count))
        until(
            lambda: sum(one.status.HasField("error_info") for one in instances(made, name).values()) == count,
            SLOW_S, "the others have failed",
        )  # fmt: skip
        failed = [one.id for one in instances(made, name).values() if one.status.HasField("error_info")]
        leaving = nodes(plane)[f"{name}-1"]
        plane.kubectl("taint", "node", f"{name}-1", f"{HARD_TAINT_KEY}=1:NoSchedule")
        orders = [pb.ExternalGrpcNode(name=one, provider_id=one) for one in failed]
        orders.append(pb.ExternalGrpcNode(name=f"{name}-1", provider_id=leaving["spec"]["providerID"]))
        made.NodeGroupDeleteNodes(pb.NodeGroupDeleteNodesRequest(id=name, nodes=orders))
        assert list(instances(made, name)) == [f"kwok://{name}/{name}-2"]
        until(lambda: f"{name}-1" not in nodes(plane), SLOW_S, "the node is gone")
        # Asked again in the next loop.
        made.NodeGroupDeleteNodes(pb.NodeGroupDeleteNodesRequest(id=name, nodes=orders))


def test_slow_instances_of_a_growth_that_the_autoscaler_ordered_stay_until_they_join(
    plane: ControlPlane, tmp_path: Path
) -> None:
    group = workloads.group("slow", 10, pool="slow")
    times = ("--node-start=35", "--max-node-provision-time=1")
    options = command(plane, tmp_path / "actuator", [group], "--serve-externalgrpc", *times)
    with provider(tmp_path / "actuator", options) as made:
        made.NodeGroupIncreaseSize(pb.NodeGroupIncreaseSizeRequest(id="slow", delta=4))
        until(lambda: sum(one.startswith("slow-") for one in nodes(plane)) == 4, SLOW_S, "all four nodes")
        assert len(instances(made, "slow")) == 4
