"""Steering an autoscaler at 5,000 nodes: annotations follow a plan, and a loop without changes writes nothing.

The plan is the planner's own; the API server is a dictionary, so that the figures are ours alone.
"""

from typing import Any

import msgspec

from tests.benchmarks.clusters import LARGE, snapshot
from tests.benchmarks.registry import Stages, scenario
from trimtab.clients.steering.marks import nodes_to_keep, writes
from trimtab.clients.steering.rounds import marks_of
from trimtab.clients.steering.writer import MarkWriter
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import Node
from trimtab.common.kubernetes.signals.cluster_autoscaler import SCALE_DOWN_DISABLED
from trimtab.common.kubernetes.signals.ours import STEERED
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb

NOW_S = 1_800_000_000
WITHIN_S = 600.0
MOST_PER_S = 1e9


class Steered:
    """A plan, and the annotations of its nodes as an API server keeps them."""

    def __init__(self) -> None:
        cluster = snapshot(LARGE)
        request = pb.PlanRequest(decisions=[pb.Decision.SCALE_DOWN])
        request.now.seconds = NOW_S
        self.answer = plan(canonicalize(cluster), request, None, Work())
        self.names = [node.name for node in cluster.nodes]
        self.annotations: dict[str, dict[str, str]] = {name: {} for name in self.names}
        self.writes = 0

    def read(self, request: ApiRequest) -> bytes:
        """Take a write."""
        body = msgspec.json.decode(request.body)
        self.annotations[body["metadata"]["name"]] = body["metadata"]["annotations"]
        self.writes += 1
        return b"{}"

    def nodes(self) -> list[Node]:
        """Return the nodes as a watch has them."""
        return [
            Node(metadata=ObjectMeta(name=name, uid=name, annotations=self.annotations[name])) for name in self.names
        ]


def loop(made: Steered, writer: MarkWriter, stages: Stages, name: str) -> int:
    """Bring the annotations to the plan; return the number of writes."""
    nodes, before = made.nodes(), made.writes
    with stages.stage(name):
        marks = marks_of(nodes)
        wanted = writer.unseen(writes(marks, nodes_to_keep(made.answer), SCALE_DOWN_DISABLED.key), marks)
        writer.write(wanted, marks, lambda: True, WITHIN_S)
    return made.writes - before


def run(made: Steered, stages: Stages) -> dict[str, Any]:
    made.annotations = {name: {} for name in made.names}
    writer = MarkWriter(made, MOST_PER_S)
    found = {name: loop(made, writer, stages, name) for name in ("first", "steady")}
    for name, count in found.items():
        stages.fact(f"writes {name}", count)
    return found


def verify(made: Steered, found: dict[str, Any]) -> None:
    """All nodes that stay are protected after the first loop, no others, and the next has nothing to do."""
    stay = nodes_to_keep(made.answer)
    assert found == {"first": len(stay), "steady": 0}
    assert {name for name, marks in made.annotations.items() if STEERED.key in marks} == stay
    assert 0 < len(stay) < len(made.names)


scenario(
    name="steering-5000",
    what="annotations of 5,000 nodes brought to a plan, then a loop in which nothing has changed",
    setup=Steered,
    run=run,
    verify=verify,
    aims={"steady": 0.05},
)
