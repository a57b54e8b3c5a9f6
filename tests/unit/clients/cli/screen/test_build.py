"""The content of the live screen: every node once, sums that agree, states of deletions, timers in words."""

from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.screens import NOW_S, planned, status_of
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import plain_text
from trimtab.clients.cli.screen.build import explained_node, screen_of
from trimtab.clients.cli.screen.model import NodeState
from trimtab.v1 import actuator_pb2, plan_pb2


def changed(verdict: plan_pb2.NodeVerdict) -> PlanAnswer:
    """Return the plan of the small cluster with other words about one node."""
    answer = planned()
    return PlanAnswer(plan_pb2.PlanResponse(nodes=[verdict]), answer.view, answer.settings, answer.now_ns)


def verdict(answer: PlanAnswer, name: str, status: actuator_pb2.ActuatorStatus | None = None) -> tuple[str, str]:
    row = next(one for one in screen_of(answer, status).nodes if one.name == name)
    return row.state, row.verdict


def test_every_node_is_in_one_line_and_the_groups_sum_them_up() -> None:
    screen = screen_of(planned(), status_of(), "shop")
    assert [one.name for one in screen.nodes] == ["a-1", "a-2", "a-3", "b-1", "b-2"]
    assert sum(one.nodes for one in screen.groups) == len(screen.nodes) == screen.summary.now.node_count
    assert sum(one.price for one in screen.groups) == sum(one.price or 0.0 for one in screen.nodes)
    assert sum(one.added for one in screen.groups) == screen.summary.added_node_count == 1
    cores = {"a-1": 2.7, "a-2": 0.2, "a-3": 0.0, "b-1": 0.5, "b-2": 3.0}
    assert {one.name: round(one.cpu * 4, 6) for one in screen.nodes} == cores
    assert round(screen.cpu * 20, 6) == round(sum(cores.values()), 6)


def test_every_pod_that_waits_is_in_one_line() -> None:
    screen = screen_of(planned())
    pods = [pod for line in screen.pending for pod in line.pods]
    assert sorted(pods) == sorted(planned().view.waiting_pods())
    assert len(pods) == screen.waiting == 3
    assert [line.is_served for line in screen.pending] == [False, True, True]


def test_a_deletion_of_the_actuator_goes_before_what_the_plan_says() -> None:
    assert verdict(planned(), "b-1", status_of("b-1")) == (NodeState.MOVING, "draining: 3 of 7 pods gone")
    assert verdict(planned(), "b-1")[0] in (NodeState.NOW, NodeState.LATER)


def test_a_node_that_the_plan_finds_being_deleted_is_moving() -> None:
    leaves = plan_pb2.NodeVerdict(node="b-1", fate=plan_pb2.NodeFate.LEAVING, why="already being deleted")
    assert verdict(changed(leaves), "b-1") == (NodeState.MOVING, "already being deleted")


def test_timers_and_waves_are_told_with_how_long_the_node_has_been_unneeded() -> None:
    since = Timestamp(seconds=NOW_S - 120)
    waits = plan_pb2.NodeVerdict(node="b-1", since=since, fate=plan_pb2.NodeFate.GOES_LATER, wave=1)
    waits.goes_at.seconds = NOW_S + 480
    assert verdict(changed(waits), "b-1") == (NodeState.LATER, "can go in 8 min (unneeded for 2 min)")
    waits.wave = 3
    assert verdict(changed(waits), "b-1") == (NodeState.LATER, "can go in wave 3 (unneeded for 2 min)")


def test_ages_of_deletions_are_those_of_a_status_that_is_newer_than_the_plan() -> None:
    status = status_of()
    status.time.seconds = NOW_S + 10
    assert [round(one.seconds) for one in screen_of(planned(), status).removals] == [40, 100]


def test_a_node_that_is_gone_is_not_explained() -> None:
    assert explained_node(planned(), "gone") == []
    assert plain_text(explained_node(planned(), "a-1")[0]).startswith("Node a-1, ")
