"""`PlanRequest.explain_nodes`: all pods that must not be evicted from some nodes, and which lists are refused."""

from collections.abc import Iterator

import pytest

from tests.builders.planner_service import asking, make_shell, parts, refused, send
from trimtab.clients.verdicts import staying
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.errors import Reason
from trimtab.planner.service.warm_up import small_cluster
from trimtab.v1 import planner_pb2_grpc


@pytest.fixture(scope="module")
def planner() -> Iterator[planner_pb2_grpc.PlannerStub]:
    with make_shell() as shell, connect(shell.address) as channel:
        yield planner_pb2_grpc.PlannerStub(channel)


def test_all_blocking_pods_of_the_nodes_asked_for_are_listed(planner: planner_pb2_grpc.PlannerStub) -> None:
    nodes = [node.name for node in small_cluster().nodes]
    without = send(planner, parts(asking()))
    assert not any(one.blocking_pods for one in without.nodes)
    answer = send(planner, parts(asking(explain_nodes=nodes[::-1])))
    listed = {one.node: {pod.pod: pod.reason for pod in one.blocking_pods} for one in answer.nodes}
    blocked = [one for one in staying(answer) if one.blocking_reason]
    assert all(listed[one.node][one.blocking_pod] == one.blocking_reason for one in blocked)
    for one in answer.nodes:
        one.ClearField("blocking_pods")
    assert list(answer.nodes) == list(without.nodes), "nothing else depends on it"
    assert answer.scale_down == without.scale_down


@pytest.mark.parametrize(
    ("name", "problem"), [("nowhere", "the snapshot has no node 'nowhere'"), ("a", "'a' is given twice")]
)
def test_a_node_that_is_unknown_or_repeated_is_refused_by_name(
    planner: planner_pb2_grpc.PlannerStub, name: str, problem: str
) -> None:
    error = refused(lambda: send(planner, parts(asking(explain_nodes=["a", name]))))
    assert error.reason == Reason.REQUEST_INVALID
    assert f"explain_nodes[1]: {problem}" in error.message
