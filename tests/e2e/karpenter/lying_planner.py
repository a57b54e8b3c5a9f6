"""A planner that answers, quickly, with a plan that nobody may carry out: every node of the cluster leaves."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, reason_pb2


def name_of(text: bytes) -> tuple[str, str]:
    """Return kind and name of an object; those of nodes and node groups are in no namespace."""
    one = json.loads(text)
    return one["kind"], one.get("metadata", {}).get("name", "")


class LyingPlanner(planner_pb2_grpc.PlannerServicer):
    """Answers to Plan alone."""

    GetInfo = CheckFit = BalanceScaleUp = None  # type: ignore[assignment]

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], Any] = {}

    def Plan(
        self, request_iterator: Iterable[planner_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> plan_pb2.PlanResponse:
        """Return a wave in which all nodes leave."""
        for part in request_iterator:
            self._objects.update({name_of(text): json.loads(text) for text in part.objects.put})
            for key in part.objects.delete:
                self._objects.pop((key.kind, key.name), None)
        answer = plan_pb2.PlanResponse(snapshot_version="1")
        answer.replacement.result = reason_pb2.ReplacementResult.REPLACEMENT_PLANNED
        wave = answer.replacement.waves.add(saving_per_hour=1.0)
        groups = [one for (kind, _), one in self._objects.items() if kind == "NodeGroup"]
        for name in [name for kind, name in self._objects if kind == "Node"]:
            group = next((one["metadata"]["name"] for one in groups if name in one["spec"].get("nodes", ())), "")
            wave.leaving.add(node=name, node_group=group)
        return answer


@contextmanager
def lying_planner() -> Iterator[str]:
    """Yield its address."""
    server = grpc.server(ThreadPoolExecutor(2))
    planner_pb2_grpc.add_PlannerServicer_to_server(LyingPlanner(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)
