"""Splitting of new nodes over node groups, in the service and over the wire. Groups are synthetic."""

from opentelemetry.metrics import NoOpMeterProvider

from tests.benchmarks.registry import Stages, scenario
from tests.benchmarks.services import RunningPlanner
from trimtab.planner.service.request_handler import RequestHandler
from trimtab.v1 import planner_pb2

Answer = planner_pb2.BalanceScaleUpResponse
GROUPS, NEW_NODES = 1_000, 10_000


class Splitting:
    """A request, a handler in this process and a planner that runs."""

    def __init__(self) -> None:
        request = planner_pb2.BalanceScaleUpRequest(new_nodes=NEW_NODES)
        for i in range(GROUPS):
            request.node_groups.add(node_group=f"group-{i:04}", current_size=i % 37, max_size=40 + i % 41)
        self.request, self.data = request, request.SerializeToString()
        self.handler = RequestHandler(NoOpMeterProvider().get_meter("benchmark"), 0, log_decisions=False)
        self.running = RunningPlanner()
        self.running.client.info()

    def close(self) -> None:
        """End the planner."""
        self.running.close()


def split(made: Splitting, stages: Stages) -> tuple[Answer, Answer]:
    """Once from bytes to bytes, as the service does it, and once as a call."""
    with stages.stage("service"):
        request = planner_pb2.BalanceScaleUpRequest.FromString(made.data)
        written = made.handler.balance_scale_up(request).SerializeToString()
    with stages.stage("call"):
        answer = made.running.link.balance_scale_up(made.request)
    return Answer.FromString(written), answer


def verify(made: Splitting, answers: tuple[Answer, Answer]) -> None:
    """All nodes are given out within maxima; no move of one makes sizes more even; both answers are the same."""
    answer, called = answers
    assert answer == called
    grown = {one.node_group: one.new_size for one in answer.splits}
    rows = [(one.current_size, grown.get(one.node_group, one.current_size), one.max_size)
            for one in made.request.node_groups]  # fmt: skip
    room = sum(max(most - size, 0) for size, _, most in rows)
    assert sum(after - size for size, after, _ in rows) == min(NEW_NODES, room)
    assert all(size <= after <= most for size, after, most in rows)
    assert max(after for size, after, _ in rows if after > size) - min(a for _, a, most in rows if a < most) <= 1


scenario(
    name="BalanceScaleUp 1,000 groups / 10,000 new nodes",
    what="split 10,000 new nodes over 1,000 groups of different sizes and maxima, sent in the order of their ids",
    setup=Splitting,
    run=split,
    verify=verify,
    aims={"service": 0.002},
    repeats=30,
    reference="the Cluster Autoscaler splits them in 0.2 ms, without reading and writing messages",
)
