"""Nodes that were ordered for a request which cannot be completed go back at once: those that came, and those to come,
unless a decision of the same plan uses them."""

from typing import Any

import pytest

from tests.builders.capacity_requests import (
    CONSUMES,
    NOW_S,
    CapacityOutcomes,
    condition,
    plan_requests,
    pod_template,
    request,
)
from tests.builders.kubernetes import Json, node, node_group, pod
from trimtab.planner.capacity_requests import loop
from trimtab.v1 import plan_pb2

Decision = plan_pb2.Decision
EVERY = [code for code in Decision.Code.values() if code]
AFTER_ORDER = "2027-01-15T07:58:00Z"
MADE = [pod_template("t", "3"), request("r", ("t", 5))]


def ordered(count: int = 3, group: str = "g", name: str = "r") -> plan_pb2.PlanState:
    state = plan_pb2.PlanState()
    order = state.capacity_requests.orders.add(name=f"default/{name}", uid=f"uid-{name}", node_group=group, count=count)
    order.order_time.seconds = NOW_S - 300
    return state


def group(target: int, *nodes: str, least: int = 0, most: int = 3, name: str = "g") -> Json:
    return node_group(
        name, least, most, target=target, nodes=list(nodes), template=node("t", "4"),
        status={"lastScaleUpTime": AFTER_ORDER},
    )  # fmt: skip


def came(name: str) -> Json:
    return node(name, "4", created=AFTER_ORDER)


def given_back(found: CapacityOutcomes) -> tuple[list[str], dict[str, int]]:
    return list(found.decision.release.nodes), dict(found.decision.release.upcoming)


def planned(*objects: Any, **options: Any) -> CapacityOutcomes:
    return plan_requests(*objects, **{"state": ordered(), "decisions": EVERY} | options)


def test_nodes_that_are_still_to_come_are_given_back_with_those_that_came() -> None:
    for decisions in (EVERY, [Decision.CAPACITY_REQUESTS]):
        found = planned(came("a"), group(3, "a"), MADE, decisions=decisions)
        assert found.outcomes == {"r": "NOT_FOUND"}
        assert given_back(found) == (["a"], {"g": 2})


def test_the_answer_says_what_goes_back_and_the_figures_count_it() -> None:
    found = planned(came("a"), group(3, "a"), MADE)
    one = found.of("r")
    assert (list(one.release.nodes), dict(one.release.upcoming)) == (["a"], {"g": 2})
    assert one.detail.endswith("; nodes ordered for it are given back: 1 that has come and 2 still to come")
    (summary,) = [one for one in found.answer.diagnostics.decisions if one.decision == Decision.CAPACITY_REQUESTS]
    assert summary.counts["given_back"] == 3


def test_an_error_while_it_is_decided_what_goes_back_leaves_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(loop, "UnusedNodes", fails)
    found = planned(came("a"), group(3, "a"), MADE)
    assert (found.outcomes, given_back(found)) == ({"r": "NOT_FOUND"}, ([], {}))


def test_nothing_is_given_back_while_other_groups_complete_the_request() -> None:
    found = planned(came("a"), group(3, "a"), group(0, name="h", most=9), MADE)
    assert found.outcomes == {"r": "PROVISIONED"}
    assert given_back(found) == ([], {})


def test_nodes_of_a_request_that_is_gone_or_was_made_anew_are_given_back() -> None:
    gone = planned(came("a"), group(3, "a"))
    assert given_back(gone) == (["a"], {"g": 2})
    state = ordered()
    state.capacity_requests.orders[0].uid = "uid-before"
    anew = planned(came("a"), group(3, "a"), pod_template("t", "3"), request("r", ("t", 1)), state=state)
    assert given_back(anew) == ([], {"g": 2})


def test_no_group_gets_below_its_minimum() -> None:
    assert given_back(planned(came("a"), group(3, "a", least=1), MADE)) == (["a"], {"g": 1})
    assert given_back(planned(came("a"), group(3, "a", least=3), MADE)) == ([], {})


def test_no_more_nodes_are_given_back_than_were_ordered() -> None:
    found = planned(came("a"), group(3, "a"), MADE, state=ordered(2))
    assert given_back(found) == (["a"], {"g": 1})


def test_nodes_to_come_that_waiting_pods_need_stay() -> None:
    found = planned(came("a"), group(3, "a"), MADE, pod("p", "3"), pod("q", "3"))
    assert given_back(found) == ([], {"g": 1})


def test_nodes_that_slack_keeps_free_stay() -> None:
    slack: Json = {"slack": {"extraCapacityMinRate": 0.25, "granularity": 2}}
    busy = [pod(f"busy-{at}", "4", node="old", phase="Running") for at in range(2)]
    cluster = [node("old", "8"), *busy, came("a"), group(3, "a"), MADE]
    without = planned(*cluster)
    assert given_back(without) == (["a"], {"g": 2})
    kept = planned(*cluster, settings=slack)
    assert len(kept.answer.slack.placeholders) == 1
    assert given_back(kept) == ([], {"g": 2})


def test_the_nodes_of_a_request_whose_pods_have_all_started_go_as_all_others_do() -> None:
    running = [pod(f"p{at}", "3", node="a", annotations={CONSUMES: "r"}, phase="Running") for at in range(1)]
    done = [pod_template("t", "3"), request("r", ("t", 1), conditions=[condition("Provisioned")])]
    found = planned(came("a"), came("b"), group(2, "a", "b"), running, done)
    assert found.outcomes == {"r": "CONSUMED"}
    assert given_back(found) == ([], {})
    assert not found.answer.state.capacity_requests.orders


def test_a_booking_that_ends_before_its_pods_come_gives_its_nodes_back() -> None:
    long_ago = condition("Provisioned", at="2027-01-15T07:00:00Z")
    ended = [pod_template("t", "3"), request("r", ("t", 1), conditions=[long_ago])]
    found = planned(came("a"), group(2, "a"), ended)
    assert found.outcomes == {"r": "BOOKING_EXPIRED"}
    assert given_back(found) == (["a"], {"g": 1})
