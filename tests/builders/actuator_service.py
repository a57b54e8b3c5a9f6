"""A running actuator service on loopback, with its client."""

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeter

from tests.builders.actuator import small_cluster
from tests.builders.kubernetes import Json
from tests.builders.waiting import LIMIT_S
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.servicer import SERVICE, ActuatorServicer
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.settings import DeleteSettings, DrainSettings, GrowSettings, ReplaceSettings, WorkSettings
from trimtab.actuator.store.records import MemoryStore, Store
from trimtab.actuator.tracker.admission import DeletionLimits
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.simulation.cloud.entry import EmbeddedClusterServicer
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.cluster.controllers import Delays
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import RetryPolicy
from trimtab.common.rpc.server import Registration, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc, reason_pb2
from trimtab.v1.actuator_pb2_grpc import add_ActuatorServicer_to_server

SETTINGS = ActuatorSettings(
    work=WorkSettings(
        drain=DrainSettings(timeout_s=60.0, eviction_retry_s=0.02, poll_s=0.02, thread_count=4),
        delete=DeleteSettings(timeout_s=LIMIT_S, poll_s=0.02, retry_s=0.02),
        grow=GrowSettings(retry_s=0.02),
        replace=ReplaceSettings(poll_s=0.02),
        delay_after_taint_s=0.0,
        rollback_retry_s=0.05,
    ),
    limits=DeletionLimits(max_parallelism=6, max_drain_parallelism=4, max_plan_age_s=300),
    max_watchers=2,
)
DELAYS = Delays(0.03, 0.02, 0.05, 0.03)
ONCE = RetryPolicy(attempts=1)
State = actuator_pb2.DeletionState


class Service:
    """A running service with its client."""

    def __init__(
        self,
        settings: ActuatorSettings = SETTINGS,
        delays: Delays = DELAYS,
        objects: Sequence[Json] | None = None,
        store: Store | None = None,
    ) -> None:
        self.cluster = SimulatedCluster(small_cluster() if objects is None else objects, None, delays)
        self.store = store or MemoryStore()
        self.actuator = Actuator(self.store, self.cluster, MemoryCloud(self.cluster), NoOpMeter("test"), settings)
        self.servicer = ActuatorServicer(self.actuator)
        add_embedded = actuator_pb2_grpc.add_EmbeddedClusterServicer_to_server
        self.shell = Shell(
            "test",
            [
                Registration(add_ActuatorServicer_to_server, self.servicer, SERVICE),
                Registration(add_embedded, EmbeddedClusterServicer(self.cluster), "trimtab.v1.EmbeddedCluster"),
            ],
        )
        self.shell.start()
        self.actuator.start()
        self.shell.ready()
        self.client = ActuatorClient(self.shell.address, ONCE)

    def close(self) -> None:
        self.shell.stop(self.servicer.end_streams)
        self.client.close()
        self.actuator.stop()

    def start(self, request_id: str = "r1", *nodes: str, drain: bool = True, **more: Any) -> dict[str, str]:
        entries = [actuator_pb2.NodeToDelete(node=node, drain=drain) for node in nodes]
        request = actuator_pb2.StartDeletionRequest(request_id=request_id, nodes=entries, **more)
        return answers(self.client.start_deletion(request))

    def wait(self, *nodes: str) -> dict[str, str]:
        """Watch until the deletions of these nodes have ended; return the state of each."""
        for status in self.client.watch_status():
            ended = {d.node: State.Code.Name(d.state) for d in status.finished}
            if set(nodes) <= ended.keys():
                return ended
        raise AssertionError("the stream ended")


def answers(response: actuator_pb2.StartDeletionResponse) -> dict[str, str]:
    name = reason_pb2.DeletionReason.Code.Name
    return {answer.node: "yes" if answer.accepted else name(answer.reason) for answer in response.nodes}


def refusal(call: Any) -> TrimtabError:
    with pytest.raises(TrimtabError) as caught:
        call()
    return caught.value
