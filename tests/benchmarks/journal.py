"""The actuator's memory: a start on a large journal, then its whole status over the wire, repeatedly."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentelemetry.metrics import NoOpMeter

from tests.benchmarks.registry import Stages
from tests.builders.actuator import START_S, small_cluster
from trimtab.actuator.service.app import Actuator, Runtime
from trimtab.actuator.service.servicer import SERVICE, ActuatorServicer
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.sql import SqlStore, sqlite_url
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import NodeAnswer, PodRef, Retention
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
from trimtab.clients.simulation.virtual_time import VirtualTime
from trimtab.common.rpc.server import Registration, Shell
from trimtab.v1 import actuator_pb2
from trimtab.v1.actuator_pb2_grpc import add_ActuatorServicer_to_server

NODES, PODS_PER_NODE, SET = 1_000, 30, 100
CALLS = 10
SETTINGS = ActuatorSettings(retention=Retention(finished_s=86_400, evictions_s=86_400))


class Journalled:
    """A store on disk that was never compacted, and the current actuator."""

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.store = sqlite_url(Path(self.directory.name) / "store.sqlite")
        self.event_count = 0
        journal = Journal(SqlStore(self.store), SETTINGS.retention, compact_after=1 << 30)
        now_ms = int(time.time() * 1000)
        for event in events():
            journal.handle(event, now_ms)
            self.event_count += 1
            if self.event_count % 1000 == 0:
                journal.commit()
        journal.commit()
        journal.close()
        self.running: tuple[Shell, ActuatorServicer, ActuatorClient] | None = None

    def start(self) -> None:
        """An actuator that has read the journal, but does not act on it."""
        cluster = SimulatedCluster(small_cluster())
        runtime = Runtime(make_pool=VirtualTime(START_S).make_pool)
        store = SqlStore(self.store)
        actuator = Actuator(store, cluster, MemoryCloud(cluster), NoOpMeter("benchmark"), SETTINGS, runtime)
        servicer = ActuatorServicer(actuator)
        shell = Shell("benchmark", [Registration(add_ActuatorServicer_to_server, servicer, SERVICE)])
        shell.start()
        shell.ready()
        self.running = shell, servicer, ActuatorClient(shell.address)

    def stop(self) -> None:
        """End it."""
        if self.running is not None:
            shell, servicer, client = self.running
            client.close()
            shell.stop(servicer.end_streams)
            self.running = None

    def close(self) -> None:
        """Clean up."""
        self.stop()
        self.directory.cleanup()


def events() -> Iterator[e.Event]:
    """The life of `NODES` drains up to their last eviction."""
    for first in range(0, NODES, SET):
        nodes = [f"ip-10-0-{number:05}.region-1.compute.internal" for number in range(first, first + SET)]
        planned = tuple(e.PlannedNode(node, "pool-a", True) for node in nodes)
        yield e.SetAccepted(f"set-{first}", "0" * 64, planned, tuple(NodeAnswer(n, True) for n in nodes), 3600.0)
        yield e.SetTainted(f"set-{first}")
        for node in nodes:
            pods = tuple(pod(node, number) for number in range(PODS_PER_NODE))
            yield e.DrainStarted(node, pods)
            for number, one in enumerate(pods, start=1):
                yield e.PodsEvicted(node, (one,))
                yield e.DrainProgressed(node, number)


def pod(node: str, number: int) -> PodRef:
    """A pod with names as long as usual."""
    workload = f"workload-{number:03}-6c9d54f7b8"
    uid = f"8ba8e69e-7575-4901-{number:04}-{node[8:13]:0>12}"
    return PodRef("team-7", f"{workload}-{node[8:13]}", uid, "ReplicaSet", workload, f"1c2d3e4f-0000-{number:012}")


def run(made: Journalled, stages: Stages) -> actuator_pb2.ActuatorStatus:
    """Start, read the status once, then repeatedly after one change each."""
    made.stop()
    with stages.stage("start on the journal"):
        made.start()
    assert made.running is not None
    _, servicer, client = made.running
    with stages.stage("first status"):
        client.get_status()
    for number in range(CALLS):
        servicer._actuator.processor.submit(e.PodsEvicted("elsewhere", (PodRef("a", "b", f"c{number}"),)))
        started = time.perf_counter()
        status = client.get_status()
        stages.add("status", (time.perf_counter() - started) / CALLS)
    stages.fact("events", made.event_count)
    stages.fact("status_bytes", status.ByteSize())
    return status


def verify(made: Journalled, status: Any) -> None:
    """Everything is in the status, and the deletions stand where they stood."""
    assert len(status.deletions) == NODES
    assert len(status.recent_evictions) == NODES * PODS_PER_NODE + CALLS
    assert {one.pods_gone_count for one in status.deletions} == {PODS_PER_NODE}
