"""Calls that fail are repeated in one place: by the client of the API server and by the reader of the cloud, not by the
work that makes them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import grpc
import pytest

from tests.builders import aws as fake_aws
from tests.builders import cluster_api as fake_capi
from tests.builders.clouds import NO_NODES, aws_cloud
from tests.builders.json_api import Fault, JsonApiServer
from tests.builders.recorder import Recorder
from trimtab.actuator.cloud.clusterapi.cloud import ClusterApiCloud
from trimtab.actuator.cloud.externalgrpc.calls import READS, WRITES, ProviderCalls
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.cloud.table import AwsSettings
from trimtab.actuator.kube.live import KubeCluster
from trimtab.actuator.runner.deleter import GroupDeleter
from trimtab.actuator.runner.tasks import GrowTask, TaintTask, TaskContext
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.instructions import DeleteInstance, Grow, WriteTaints
from trimtab.actuator.tracker.states import GroupGrowth
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.retries import attempts

AWS_ATTEMPTS, API_ATTEMPTS = 6, 4
MANY = 100


def context(cluster: Any, cloud: Any) -> TaskContext:
    return TaskContext(cluster, cloud, Recorder(), WorkSettings(), lambda *_: None)


def test_a_taint_is_tried_four_times_on_an_api_server_that_fails() -> None:
    with JsonApiServer() as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"providerID": "x://n1"}})
        server.fail("GET", *[Fault(503)] * MANY)
        work = context(KubeCluster(server.api()), None)
        TaintTask(WriteTaints("r", ("n1",), ("",)), work).step()
        assert server.requests == ["GET /api/v1/nodes/n1"] * API_ATTEMPTS
        assert [type(event) for event in cast(Recorder, work.recorder).events] == [e.SetFailed]


def test_one_step_of_a_deletion_or_growth_reads_a_throttled_aws_six_times(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with fake_aws.aws() as proxy:
        fake_aws.launch_template("g", "m5.large")
        fake_aws.scaling_group("g", (0, 9, 1), tags={"owner": "trimtab"})
        cloud = aws_cloud(proxy, AwsSettings(tags={"owner": "trimtab"}))
        work = context(None, cloud)
        deleter = GroupDeleter("g", NO_NODES, cloud, work.recorder, work.settings)
        deleter.want(DeleteInstance("n1", "g", "aws:///x/i-1", ""))
        for step in (deleter.step, GrowTask(Grow("r", (GroupGrowth("g", 1, 2),), work.recorder.now_ms()), work).step):
            proxy.faults.clear()
            proxy.actions.clear()
            proxy.fail("DescribeAutoScalingGroups", *[fake_aws.Fault("Throttling")] * MANY)
            assert step() is not None
            assert Counter(proxy.actions) == {"DescribeAutoScalingGroups": AWS_ATTEMPTS}


def test_one_step_over_a_management_cluster_that_fails_sends_each_request_four_times() -> None:
    with JsonApiServer() as server:
        controllers = fake_capi.fill(server)
        cloud = ClusterApiCloud(server.api())
        group, machine = "MachineDeployment/default/g", cloud.instances(["MachineDeployment/default/g"])
        del controllers
        for method in ("GET", "PATCH"):
            for step in steps(cloud, group, machine[group][0].id):
                server.faults.clear()
                server.requests.clear()
                server.fail(method, *[Fault(503)] * MANY)
                step()
                failed = [request for request in server.requests if request.startswith(method)]
                assert set(Counter(failed).values()) == {API_ATTEMPTS}
                assert len(set(failed)) == 1


def test_one_step_over_an_external_provider_that_is_away_reads_three_times_and_changes_once() -> None:
    with failing_provider() as (channel, calls):
        cloud = ExternalCloud(ProviderCalls(channel, 5.0, attempts(READS.attempts, 0.0, 0.0)))
        for step in steps(cloud, "g", "external:///i-1"):
            calls.clear()
            step()
            assert calls == {"NodeGroups": READS.attempts}
        for method in WRITES:
            calls.clear()
            with pytest.raises(CloudError):
                ProviderCalls(channel, 5.0).one(method, pb.NodeGroupsRequest())
            assert calls == {method: 1}


def steps(cloud: Any, group: str, instance: str) -> list[Callable[[], float | None]]:
    """Return one step each of a deletion and of a growth."""
    work = context(None, cloud)
    deleter = GroupDeleter(group, NO_NODES, cloud, work.recorder, work.settings)
    deleter.want(DeleteInstance("n1", group, instance, ""))
    growth = GrowTask(Grow("r", (GroupGrowth(group, 3, 4),), work.recorder.now_ms()), work)
    return [deleter.step, growth.step]


@contextmanager
def failing_provider() -> Iterator[tuple[grpc.Channel, Counter[str]]]:
    """A provider that answers UNAVAILABLE, and its calls by method."""
    calls: Counter[str] = Counter()

    def refuse(_request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        raise AssertionError

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> Any:
            calls[details.method.rpartition("/")[2]] += 1
            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with connect(f"127.0.0.1:{port}", ChannelSecurity()) as channel:
            yield channel, calls
    finally:
        server.stop(None).wait()
