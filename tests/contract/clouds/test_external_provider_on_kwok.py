"""Orders of the Cluster Autoscaler about instances without Node, which it names by provider id, with the cloud kwok and
an API server that answers such paths as a real one does.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from opentelemetry.metrics import NoOpMeter

from tests.builders.clouds import SETTINGS, Clock
from tests.builders.json_api import JsonApiServer
from tests.builders.kubernetes import node, node_group
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.cloud.kwok.cloud import KwokCloud
from trimtab.actuator.cloud.kwok.groups import CAPACITY_ANNOTATION, read_group
from trimtab.actuator.cloud.table import KwokSettings
from trimtab.actuator.kube.live import KubeCluster
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.external.servicer import external_registration
from trimtab.actuator.store.records import MemoryStore
from trimtab.actuator.tracker.states import State
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.server import ServerSettings, Shell

RUNNING_COUNT = 3


class Provider(NamedTuple):
    """The service, its cloud, and what lets machines start and end."""

    stub: Any
    cloud: KwokCloud
    actuator: Actuator
    settle: Callable[[], None]

    def instances(self) -> list[str]:
        """Return the ids of the instances that are not being deleted."""
        self.stub.Refresh(pb.RefreshRequest())
        found = self.stub.NodeGroupNodes(pb.NodeGroupNodesRequest(id="g")).instances
        return [one.id for one in found if one.status.instance_state != pb.InstanceStatus.INSTANCE_DELETING]

    def delete(self, *pairs: tuple[str, str]) -> None:
        """Order deletions by name and provider id."""
        nodes = [pb.ExternalGrpcNode(name=name, provider_id=provider_id) for name, provider_id in pairs]
        self.stub.NodeGroupDeleteNodes(pb.NodeGroupDeleteNodesRequest(id="g", nodes=nodes))

    def wait_until_all_are_over(self) -> None:
        """Let machines end until no deletion is in progress."""
        end = time.monotonic() + LIMIT_S
        while self.actuator.processor.read(lambda tracker, _: bool(tracker.data.deletions)):
            assert time.monotonic() < end
            self.settle()
            time.sleep(0.02)


@contextmanager
def provider(starting: int) -> Iterator[Provider]:
    """Three nodes, and instances for which the group has no capacity."""
    group = node_group("g", 1, 40, target=RUNNING_COUNT, template=node("t", cpu="8"))
    group["metadata"]["annotations"] = {CAPACITY_ANNOTATION: str(RUNNING_COUNT)}
    clock = Clock()
    with JsonApiServer() as server:
        groups = {one.name: one for one in [read_group(group)]}
        cloud = KwokCloud(server.api(), groups, KwokSettings(node_start_s=1, instance_delete_s=1), clock, clock)
        cloud.open()
        actuator = Actuator(MemoryStore(), KubeCluster(server.api()), cloud, NoOpMeter("test"), SETTINGS)

        def settle() -> None:
            clock.now_s += 2
            cloud.resync()

        settle()
        cloud.set_size("g", RUNNING_COUNT, RUNNING_COUNT + starting, "token")
        settle()
        with Shell("provider", [external_registration(actuator)], ServerSettings()) as shell:
            actuator.start()
            with connect(shell.address) as channel:
                make_stub: Any = pb_grpc.CloudProviderStub
                yield Provider(make_stub(channel), cloud, actuator, settle)
            actuator.stop()


def by_id(instance: str) -> tuple[str, str]:
    """Return name and provider id as the Cluster Autoscaler sends them for an instance without Node."""
    return instance, instance


@pytest.mark.parametrize("count", [1, 25], ids=["one, looked up by name", "so many that all nodes are listed"])
def test_instances_without_node_are_deleted_with_the_others_of_their_call(count: int) -> None:
    with provider(count) as started:
        unregistered = [one for one in started.instances() if not one.endswith(("/g-1", "/g-2", "/g-3"))]
        assert len(unregistered) == count
        started.delete(*map(by_id, unregistered), ("g-2", "kwok://g/g-2"))
        started.wait_until_all_are_over()
        assert started.instances() == ["kwok://g/g-1", "kwok://g/g-3"]
        ended = started.actuator.processor.read(lambda tracker, _: [one.state for one in tracker.data.finished])
        assert ended == [State.DELETED] * (count + 1)
        started.delete(*map(by_id, unregistered))


@pytest.mark.parametrize("settled", [False, True], ids=["while it ends", "once it has ended"])
def test_an_instance_that_was_given_up_counts_as_gone_and_holds_up_no_other(settled: bool) -> None:
    with provider(3) as started:
        unregistered = started.instances()[RUNNING_COUNT:]
        started.cloud.decrease_target("g", 6, 4)
        if settled:
            started.settle()
        started.delete(*map(by_id, unregistered))
        started.wait_until_all_are_over()
        assert started.instances() == [f"kwok://g/g-{number}" for number in (1, 2, 3)]
