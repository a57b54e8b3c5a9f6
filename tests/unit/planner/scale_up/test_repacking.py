"""Plans with fewer new nodes, in which all served pods are placed again."""

from typing import Any
from unittest.mock import Mock

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_up import plan, search_budgets
from trimtab.planner.scale_up import repacking, variants

USUAL = {"default/large": "n1"}
BETTER = {"default/small-0": "n1", "default/small-1": "n1"}


@pytest.fixture(autouse=True)
def no_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable variants, so only repacking finds plans."""
    monkeypatch.setattr(variants, "PLACEMENT_ORDERS", ())


def cluster(*, group: Json | None = None, **large: Any) -> list[Json | list[Json]]:
    """Return a cluster with room for the large pod or for both small ones; a new node takes one pod."""
    group = group or node_group("g", 0, 10, target=0, template=node("t", "3"), nodes=[])
    return [group, node("n1", "4"), pod("large", "3", **large), [pod(f"small-{i}", "2") for i in range(2)]]


@pytest.mark.parametrize("expander", ["LEAST_NODES", "MOST_PODS", "LEAST_WASTE", "PRIORITY", "CHEAPEST_PLAN"])
def test_other_pods_take_the_room_where_that_saves_a_node(expander: str) -> None:
    settings = {"expanders": [expander], "priority": {"ranks": [{"rank": 1, "patterns": [".*"]}]}}
    found = plan(*cluster(), settings=settings)
    assert found.growth == {"g": 1}
    assert found.on_existing == BETTER
    assert found.on_new == {"g": ["default/large"]}


def test_the_verdicts_of_expanders_are_still_reported() -> None:
    (option,) = plan(*cluster()).decision.options
    assert (option.node_group, option.node_count, option.pod_count, option.chosen) == ("g", 2, 2, True)


def test_the_next_loop_keeps_to_it() -> None:
    first = plan(*cluster())
    found = plan(*cluster(), state=first.answer.state)
    assert (found.growth, found.on_existing) == ({"g": 1}, BETTER)


def test_pods_that_the_last_loop_has_placed_stay_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repacking, "REPACKING_ORDERS", 0)
    first = plan(*cluster())
    assert (first.growth, first.on_existing) == ({"g": 2}, USUAL)
    monkeypatch.undo()
    monkeypatch.setattr(variants, "PLACEMENT_ORDERS", ())
    assert plan(*cluster(), state=first.answer.state).growth == {"g": 2}


def test_more_important_pods_take_the_room_whatever_that_costs() -> None:
    found = plan(*cluster(priority=10))
    assert (found.growth, found.on_existing) == ({"g": 2}, USUAL)


def test_a_pod_too_young_for_new_nodes_keeps_its_room() -> None:
    settings = {"newPodScaleUpDelay": "60s"}
    found = plan(*cluster(created="2027-01-15T07:59:59Z"), settings=settings)
    assert (found.growth, found.on_existing) == ({"g": 2}, USUAL)


def test_a_group_that_grows_whole_does_so() -> None:
    group = node_group("g", 0, 2, target=0, template=node("t", "3"), nodes=[], zero_or_max=True)
    assert plan(*cluster(group=group)).growth == {"g": 2}


def test_of_groups_that_are_kept_even_the_largest_has_a_node_fewer() -> None:
    groups = [node_group(name, 0, 10, target=0, template=node("t", "3"), nodes=[]) for name in "ab"]
    pods = [pod(f"small-{i}", "2") for i in range(4)]
    found = plan(*groups, node("n1", "4"), pod("large", "3"), pods, settings={"balanceSimilarNodeGroups": True})
    assert sorted(found.growth.values()) == [1, 2]


def test_nothing_is_tried_once_the_time_is_over() -> None:
    assert plan(*cluster(), time_left=lambda: False).growth == {"g": 2}


def test_nothing_is_tried_where_that_is_too_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    search_budgets(monkeypatch, repacking_checks=3 * (1 + 2) - 1)
    assert plan(*cluster()).growth == {"g": 2}
    search_budgets(monkeypatch, repacking_checks=3 * (1 + 2) * 64)
    assert plan(*cluster()).growth == {"g": 1}


def test_no_pod_is_placed_where_amounts_tell_that_no_node_can_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = Mock(wraps=repacking.place_all)
    monkeypatch.setattr(repacking, "place_all", tries)
    group = node_group("g", 0, 10, target=0, template=node("t", "3"), nodes=[])
    # The existing node has free room, but not enough for any of these pods.
    assert plan(group, node("n1", "1"), pod("small", "500m"), pod("large", "3")).growth == {"g": 1}
    assert plan(group, node("n1", "3"), [pod(f"p{i}", "3") for i in range(3)]).growth == {"g": 2}
    assert not tries.called
    plan(*cluster())
    assert tries.called


def test_of_groups_whose_new_nodes_are_the_same_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    place = repacking._Task.place

    def noting(task: repacking._Task, group_of: list[int]) -> object:
        tried.append(group_of)
        return place(task, group_of)

    monkeypatch.setattr(repacking._Task, "place", noting)
    template = node("t", "3")
    groups = [node_group(name, 0, 1, target=0, template=template, nodes=[]) for name in "ab"]
    found = plan(*groups, *cluster(priority=10)[1:])
    assert (found.growth, found.on_existing) == ({"a": 1, "b": 1}, USUAL)
    assert tried == [[1]], "what does not do without a does not do without b"


def test_all_tries_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repacking, "REPACKINGS_PER_GROUP", 0)
    assert plan(*cluster()).growth == {"g": 2}
    monkeypatch.setattr(repacking, "REPACKINGS_PER_GROUP", 1)
    assert plan(*cluster()).growth == {"g": 1}
