"""The content of the live screen: every node once, sums that agree, states of deletions, timers in words."""

from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders.screens import NOW_S, planned, status_of
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.summary import key_figures
from trimtab.clients.cli.blocks import Facts, Sentence, Style, Table, plain_text
from trimtab.clients.cli.top.screen import NodeState, TopView, explained_node, screen_of
from trimtab.v1 import actuator_pb2, plan_pb2


def changed(verdict: plan_pb2.NodeVerdict) -> PlanAnswer:
    """Return the plan of the small cluster with other words about one node."""
    answer = planned()
    return PlanAnswer(plan_pb2.PlanResponse(nodes=[verdict]), answer.view, answer.settings, answer.now_ns)


def verdict(answer: PlanAnswer, name: str, status: actuator_pb2.ActuatorStatus | None = None) -> tuple[str, str]:
    """Return the state of a node, and what is said of it."""
    row = next(one.cells for one in screen_of(answer, status).tables[TopView.NODES].lines if one.cells[0] == name)
    return row[-2], row[-1]


def column(table: Table, name: str) -> list[str]:
    return [line.cells[table.columns.index(name)] for line in table.lines]


def total(table: Table, name: str) -> float:
    return sum(float(cell or 0) for cell in column(table, name))


def test_every_node_is_in_one_row_and_the_groups_sum_them_up() -> None:
    answer = planned()
    tables = screen_of(answer, status_of(), "shop").tables
    nodes, groups = tables[TopView.NODES], tables[TopView.GROUPS]
    assert column(nodes, "node") == ["a-1", "a-2", "a-3", "b-1", "b-2"]
    assert total(groups, "nodes") == len(nodes.lines) == answer.summary.now.node_count
    assert total(groups, "an hour") == total(nodes, "an hour") == 3.5
    assert total(groups, "add") == answer.summary.added_node_count == 1
    assert column(nodes, "cpu") == ["68 %", "5 %", "0 %", "12 %", "75 %"]
    assert column(groups, "cpu") == ["24 %", "44 %"]


def test_the_page_has_money_state_and_every_table() -> None:
    page = screen_of(planned(), status_of(), "shop").page("round 3 of 12", "the planner is away")
    facts, figures, trouble, *_ = page.blocks
    assert facts == Facts(
        (
            *(
                "Cluster shop",
                "Plan of 2026-03-01 00:00:00 UTC",
                "round 3 of 12",
                "32 % of cpu, 11 % of memory requested",
            ),
            *("3 pods pending", "0 to go now", "1 moving", "1 to add"),
        )
    )
    assert figures == key_figures(planned().summary, "")
    assert trouble == Sentence("the planner is away", Style.WARNING)
    titles = [one.title for one in page.blocks if isinstance(one, Table)]
    assert titles == ["Node groups", "Pending pods", "Deletions", "What grows", "Nodes"]


def test_every_pod_that_waits_is_in_one_row() -> None:
    table = screen_of(planned()).tables[TopView.PENDING]
    pods = [pod for line in table.lines for pod in line.more]
    assert sorted(pods) == sorted(planned().view.waiting_pods())
    assert column(table, "of")[0] == "default/huge", "without a place first"


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
    assert column(screen_of(planned(), status).tables[TopView.DELETIONS], "for") == ["40 s", "1 min 40 s"]


def test_a_node_that_is_gone_is_not_explained() -> None:
    assert explained_node(planned(), "gone") == []
    assert plain_text(explained_node(planned(), "a-1")[0]).startswith("Node a-1, ")
