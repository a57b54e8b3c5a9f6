"""Calls that fail are repeated in one place: by the client of the API server and by the reader of the cloud, not by the
work that makes them.
"""

from collections import Counter
from typing import Any, cast

import pytest

from tests.builders import aws as fake_aws
from tests.builders.clouds import aws_cloud
from tests.builders.json_api import Fault, JsonApiServer
from tests.builders.recorder import Recorder
from trimtab.actuator.cloud.aws.settings import AwsSettings
from trimtab.actuator.cloud.externalgrpc.calls import READ_ATTEMPTS, WRITES, Calls, UnreachableCloudError
from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.kube.live import KubeCluster
from trimtab.actuator.runner.deleter import GroupDeleter
from trimtab.actuator.runner.tasks import GrowTask, TaintTask, TaskContext
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.instructions import DeleteInstance, Grow, WriteTaints
from trimtab.actuator.tracker.states import Growth
from trimtab.clients.rpc.backoff import Backoff
from trimtab.clients.rpc.channel_security import ChannelSecurity
from trimtab.clients.rpc.client import connect

AWS_ATTEMPTS, API_ATTEMPTS = 6, 4
MANY = 100


def context(cluster: Any, cloud: Any) -> TaskContext:
    return TaskContext(cluster, cloud, Recorder(), WorkSettings(), lambda *_: None)


def test_a_taint_is_tried_four_times_on_an_api_server_that_fails() -> None:
    with JsonApiServer() as server:
        server.put("/api/v1/nodes", {"metadata": {"name": "n1"}, "spec": {"providerID": "x://n1"}})
        server.fail("GET", *[Fault(503)] * MANY)
        work = context(KubeCluster(server.api()), None)
        TaintTask(WriteTaints("r", ("n1",)), work).step()
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
        deleter = GroupDeleter("g", work.cluster, cloud, work.recorder, work.settings)
        deleter.want(DeleteInstance("n1", "g", "aws:///x/i-1", ""))
        for step in (deleter.step, GrowTask(Grow("r", (Growth("g", 1, 2),), work.recorder.now_ms()), work).step):
            proxy.faults.clear()
            proxy.actions.clear()
            proxy.fail("DescribeAutoScalingGroups", *[fake_aws.Fault("Throttling")] * MANY)
            assert step() is not None
            assert Counter(proxy.actions) == {"DescribeAutoScalingGroups": AWS_ATTEMPTS}


def test_an_external_provider_that_is_away_is_read_three_times_and_changed_once() -> None:
    with connect("127.0.0.1:1", ChannelSecurity()) as channel:
        calls = Calls(channel, 5.0, Backoff(0.0, 0.0))
        for method in ("NodeGroups", *sorted(WRITES)):
            tries = _count_tries(calls, method)
            assert tries == (1 if method in WRITES else READ_ATTEMPTS)


def _count_tries(calls: Calls, method: str) -> int:
    tries: list[str] = []

    def once() -> None:
        tries.append(method)
        raise UnreachableCloudError("away")

    with pytest.raises(CloudError):
        calls._made(method, once)
    return len(tries)
