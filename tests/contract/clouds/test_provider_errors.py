"""What a provider behind `--cloud externalgrpc` answers to a change reaches the Cluster Autoscaler in its own words, at
once, and the call is made once; only a provider that is not reached is called again.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.metrics import NoOpMeter
from structlog.testing import capture_logs

from tests.builders.clouds import SETTINGS, Clock, simulated_cluster
from trimtab.actuator.cloud.externalgrpc.calls import ProviderCalls
from trimtab.actuator.cloud.externalgrpc.cloud import ExternalCloud
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.external.servicer import external_registration
from trimtab.actuator.store.records import MemoryStore
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2_grpc as pb_grpc
from trimtab.common.rpc.channel_security import ChannelSecurity
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.server import ServerSettings, Shell

WORDS = "rack 7 is out of power"


class Provider(pb_grpc.CloudProviderServicer):
    """A provider with the group "g" whose changes fail with a code the given number of times."""

    def __init__(self, code: grpc.StatusCode, times: int = 100) -> None:
        self.code, self.times = code, times
        self.size = 3
        self.takes_effect = False
        self.calls: Counter[str] = Counter()

    def NodeGroups(self, request: Any, context: Any) -> Any:
        return pb.NodeGroupsResponse(node_groups=[pb.NodeGroup(id="g", min_size=0, max_size=9)])

    def NodeGroupTargetSize(self, request: Any, context: Any) -> Any:
        return pb.NodeGroupTargetSizeResponse(target_size=self.size)

    def NodeGroupNodes(self, request: Any, context: Any) -> Any:
        instances = [pb.Instance(id=f"test://g-{number}") for number in range(3)]
        return pb.NodeGroupNodesResponse(instances=instances)

    def NodeGroupIncreaseSize(self, request: Any, context: Any) -> Any:
        self._change("increase", request.delta, context)
        return pb.NodeGroupIncreaseSizeResponse()

    def NodeGroupDeleteNodes(self, request: Any, context: Any) -> Any:
        self._change("delete", -len(request.nodes), context)
        return pb.NodeGroupDeleteNodesResponse()

    def _change(self, what: str, delta: int, context: Any) -> None:
        self.calls[what] += 1
        fails = self.calls[what] <= self.times
        if not fails or self.takes_effect:
            self.size += delta
        if fails:
            context.abort(self.code, WORDS)


@contextmanager
def served(provider: Provider) -> Iterator[Any]:
    """The stub of an actuator that serves the Cluster Autoscaler and has this provider behind it."""
    server = grpc.server(ThreadPoolExecutor(4))
    pb_grpc.add_CloudProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with connect(f"127.0.0.1:{port}", ChannelSecurity()) as behind:
            cloud = ExternalCloud(ProviderCalls(behind, 5.0))
            actuator = Actuator(MemoryStore(), simulated_cluster(Clock()), cloud, NoOpMeter("test"), SETTINGS)
            with Shell("test", [external_registration(actuator)], ServerSettings()) as shell:
                actuator.start()
                with connect(shell.address, ChannelSecurity()) as channel:
                    yield pb_grpc.CloudProviderStub(channel)
                actuator.stop()
    finally:
        server.stop(None)


def increase(stub: Any) -> None:
    stub.NodeGroupIncreaseSize(pb.NodeGroupIncreaseSizeRequest(id="g", delta=1))


def delete(stub: Any) -> None:
    node = pb.ExternalGrpcNode(name="g-0", provider_id="test://g-0")
    stub.NodeGroupDeleteNodes(pb.NodeGroupDeleteNodesRequest(id="g", nodes=[node]))


CHANGES: dict[str, Callable[[Any], None]] = {"increase": increase, "delete": delete}
CODES = [
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    # A server in Go answers this for a plain error.
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.PERMISSION_DENIED,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_the_callers_error_has_the_providers_words_and_the_call_was_made_once(
    change: str, code: grpc.StatusCode
) -> None:
    provider = Provider(code)
    with capture_logs() as logs, served(provider) as stub, pytest.raises(grpc.RpcError) as caught:
        CHANGES[change](stub)
    assert isinstance(caught.value, grpc.Call)
    assert WORDS in str(caught.value.details())
    assert "has not answered" not in str(caught.value.details())
    assert provider.calls == {change: 1}
    assert [one["detail"] for one in logs if one["event"] == "provider_error"] == [WORDS]
    is_refused = code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.PERMISSION_DENIED)
    if change == "increase":
        expected = grpc.StatusCode.RESOURCE_EXHAUSTED if is_refused else grpc.StatusCode.UNAVAILABLE
        assert caught.value.code() is expected


@pytest.mark.parametrize("change", CHANGES)
def test_a_provider_that_is_not_reached_is_called_again(change: str) -> None:
    provider = Provider(grpc.StatusCode.UNAVAILABLE, times=1)
    with served(provider) as stub:
        if change == "increase":
            # It may have been done: the target size is read until the time is up.
            provider.takes_effect = True
        CHANGES[change](stub)
    assert provider.calls[change] == (2 if change == "delete" else 1)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_took_effect_although_it_failed_is_done(change: str) -> None:
    provider = Provider(grpc.StatusCode.INTERNAL)
    provider.takes_effect = True
    with served(provider) as stub:
        CHANGES[change](stub)
    assert provider.calls == {change: 1}
