"""A planner that answers, quickly, with a plan that nobody may carry out: every node of the cluster leaves."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from trimtab.v1 import plan_pb2, planner_pb2, planner_pb2_grpc, reason_pb2, snapshot_pb2


class LyingPlanner(planner_pb2_grpc.PlannerServicer):
    """Answers to Plan alone."""

    GetInfo = CheckFit = BalanceScaleUp = None  # type: ignore[assignment]

    def Plan(
        self, request_iterator: Iterable[planner_pb2.PlanRequestPart], context: grpc.ServicerContext
    ) -> plan_pb2.PlanResponse:
        """Return a wave in which all nodes leave."""
        data = b"".join(part.snapshot.data for part in request_iterator)
        snapshot = snapshot_pb2.ClusterSnapshot.FromString(data)
        answer = plan_pb2.PlanResponse(snapshot_version="1")
        answer.replacement.result = reason_pb2.ReplacementResult.REPLACEMENT_PLANNED
        wave = answer.replacement.waves.add(saving_per_hour=1.0)
        for node in snapshot.nodes:
            wave.leaving.add(node=node.name, node_group=node.node_group)
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
