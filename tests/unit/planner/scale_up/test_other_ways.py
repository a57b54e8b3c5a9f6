"""Which pods take the room that there is, where that decides how many nodes are added."""

from typing import Any

import pytest

from planner.scale_up import other_ways
from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_up import Outcome, plan

USUAL = {"default/large": "n1"}
BETTER = {"default/small-0": "n1", "default/small-1": "n1"}


def cluster(**large: Any) -> list[Json | list[Json]]:
    """Room for the large pod or for both small ones; a new node takes one pod."""
    group = node_group("g", 0, 10, target=0, template=node("t", "3"), nodes=[])
    return [group, node("n1", "4"), pod("large", "3", **large), [pod(f"small-{i}", "2") for i in range(2)]]


def places(found: Outcome) -> dict[str, str]:
    return dict(found.decision.on_existing)


def test_those_pods_take_the_room_that_leave_fewer_nodes_to_add() -> None:
    found = plan(*cluster())
    assert found.growth == {"g": 1}
    assert places(found) == BETTER
    assert found.on_new == {"g": ["default/large"]}


def test_the_next_loop_keeps_to_it() -> None:
    first = plan(*cluster())
    found = plan(*cluster(), state=first.answer.state)
    assert (found.growth, places(found)) == ({"g": 1}, BETTER)


def test_more_important_pods_take_the_room_whatever_that_costs() -> None:
    found = plan(*cluster(priority=10))
    assert found.growth == {"g": 2}
    assert places(found) == USUAL


def test_one_way_has_to_do_where_pods_and_nodes_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_ways, "MOST_WORK", 3 * (1 + 1) - 1)
    assert places(plan(*cluster())) == USUAL
    monkeypatch.setattr(other_ways, "MOST_WORK", 3 * (1 + 1))
    assert places(plan(*cluster())) == BETTER


def test_one_way_has_to_do_once_the_time_is_over() -> None:
    assert places(plan(*cluster(), time_left=lambda: False)) == USUAL


def test_pods_that_no_group_helps_take_the_room_that_others_need_not() -> None:
    group = node_group("g", 0, 10, target=0, template=node("t", "2"), nodes=[])
    found = plan(group, node("n1", "4"), pod("large", "3"), pod("a", "2"), pod("b", "2"))
    assert found.pending == {}
    assert places(found) == USUAL
    assert found.growth == {"g": 2}


def test_a_pod_that_nothing_helps_is_not_left_so_that_a_node_is_saved() -> None:
    group = node_group("g", 0, 10, target=0, template=node("t", "2"), nodes=[])
    wide = [pod(f"wide-{i}", "100m", "8Gi") for i in range(2)]
    found = plan(group, node("n1", "4", "16Gi"), pod("large", "3"), wide)
    assert found.pending == {}


@pytest.mark.parametrize("expander", ["LEAST_NODES", "MOST_PODS", "LEAST_WASTE", "PRIORITY", "CHEAPEST_PLAN"])
def test_every_expander_takes_the_plan_with_fewer_nodes_of_the_same_group(expander: str) -> None:
    settings = {"expanders": [expander], "priority": {"ranks": [{"rank": 1, "patterns": [".*"]}]}}
    assert plan(*cluster(), settings=settings).growth == {"g": 1}
