"""One traced round of planner and actuator on loopback, as spans in JSON."""

import time
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from opentelemetry import trace
from opentelemetry.metrics import NoOpMeter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.builders.waiting import LIMIT_S
from trimtab.actuator.tracker.admission import digest_of
from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc


class Planner(planner_pb2_grpc.PlannerServicer):
    """A planner that removes a node."""

    def GetInfo(self, request, context):
        return planner_pb2.GetPlannerInfoResponse(decisions=[plan_pb2.Decision.SCALE_DOWN])

    def Plan(self, request_iterator, context):
        request = next(request_iterator).request
        list(request_iterator)
        found = plan_pb2.ScaleDownDecision(delete_empty=["n6"])
        found.unneeded.add(node="n6").assumption.pods_to_move_digest = digest_of(())
        return plan_pb2.PlanResponse(request_id=request.request_id, scale_down=found, snapshot_version="s")


def make_a_round() -> list[dict[str, Any]]:
    """Return the spans of a round that deletes a node, once it is gone. Enables tracing in this process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    from tests.builders.actuator import small_cluster
    from tests.builders.actuator_service import DELAYS, SETTINGS
    from tests.builders.loop import FakeCluster
    from trimtab.actuator.service.app import Actuator
    from trimtab.actuator.service.servicer import SERVICE, ActuatorServicer
    from trimtab.actuator.store.records import MemoryStore
    from trimtab.clients.actuator_client import ActuatorClient
    from trimtab.clients.loop.planner_session import PlannerSession
    from trimtab.clients.loop.rounds import RoundRunner, RoundSettings
    from trimtab.clients.planner_client import GrpcLink
    from trimtab.clients.simulation.cloud.provider import MemoryCloud
    from trimtab.clients.simulation.cluster.cluster import SimulatedCluster
    from trimtab.common.rpc.server import Registration, Shell
    from trimtab.common.rpc.telemetry import Telemetry
    from trimtab.v1.actuator_pb2_grpc import add_ActuatorServicer_to_server

    cluster = SimulatedCluster(small_cluster(), None, DELAYS)
    actuator = Actuator(MemoryStore(), cluster, MemoryCloud(cluster), NoOpMeter("test"), SETTINGS)
    orders = Registration(add_ActuatorServicer_to_server, ActuatorServicer(actuator), SERVICE)
    plans = Registration(planner_pb2_grpc.add_PlannerServicer_to_server, Planner(), "trimtab.v1.Planner")
    actuator.start()
    with (
        Shell("planner", [plans], telemetry=Telemetry(NoOpMeter("test"), traces=True)) as planner,
        Shell("actuator", [orders], telemetry=Telemetry(NoOpMeter("test"), traces=True)) as shell,
        GrpcLink(planner.address) as link,
        ActuatorClient(shell.address) as client,
    ):
        now = Timestamp()
        now.GetCurrentTime()
        done = RoundRunner(FakeCluster(), PlannerSession(link), client, RoundSettings("c")).run("id", now, lambda: True)
        assert done.accepted == ["n6"], done.refused
        until_s = time.monotonic() + LIMIT_S
        while not any(span.name == "deletion" for span in exporter.get_finished_spans()):
            assert time.monotonic() < until_s
            time.sleep(0.02)
    actuator.stop()
    return [described(span) for span in exporter.get_finished_spans()]


def described(span: Any) -> dict[str, Any]:
    """Return a span as JSON values."""
    return {
        "name": span.name,
        "kind": span.kind.name,
        "trace": span.context.trace_id,
        "span": span.context.span_id,
        "parent": span.parent.span_id if span.parent else None,
        "links": [(link.context.trace_id, link.context.span_id) for link in span.links],
        "attributes": dict(span.attributes),
    }
