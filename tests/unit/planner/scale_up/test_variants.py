"""Variants of the usual plan: other pods take existing room, other groups grow."""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_up import Outcome, plan, search_budgets
from trimtab.planner.scale_up import decision, repacking
from trimtab.planner.scale_up.variants import serving_most
from trimtab.v1.plan_pb2 import Expander

USUAL = {"default/large": "n1"}
BETTER = {"default/small-0": "n1", "default/small-1": "n1"}


@pytest.fixture(autouse=True)
def no_repacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable repacking, so only variants find plans."""
    monkeypatch.setattr(repacking, "REPACKING_ORDERS", 0)


def cluster(**large: Any) -> list[Json | list[Json]]:
    """Return a cluster with room for the large pod or for both small ones; a new node takes one pod."""
    group = node_group("g", 0, 10, target=0, template=node("t", "3"), nodes=[])
    return [group, node("n1", "4"), pod("large", "3", **large), [pod(f"small-{i}", "2") for i in range(2)]]


def places(found: Outcome) -> dict[str, str]:
    return found.on_existing


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
    search_budgets(monkeypatch, variant_work=3 * (1 + 1) - 1, repacking_checks=0)
    assert places(plan(*cluster())) == USUAL
    search_budgets(monkeypatch, variant_work=3 * 3 * (1 + 1))
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


def narrow_and_wide() -> list[Json | list[Json]]:
    """Return full nodes of a narrow group, free ones of a wide group, and seven pods that need two nodes or seven."""
    narrow = node_group("narrow", 0, 10, target=0, template=node("t", "2", "1Gi"), nodes=[], price=1.0)
    wide = node_group("wide", 0, 10, target=0, template=node("t", "8", "4Gi"), nodes=[], price=4.0)
    return [narrow, wide, [pod(f"p{i}", "2", "1Gi") for i in range(7)]]


@pytest.mark.parametrize("first", [[], ["PRIORITY"]], ids=["by waste", "by rank and waste"])
def test_groups_are_chosen_otherwise_where_a_limit_would_leave_pods(first: list[str]) -> None:
    settings: Json = {"expanders": [*first, "LEAST_WASTE"], "priority": {"ranks": [{"rank": 1, "patterns": [".*"]}]}}
    assert plan(*narrow_and_wide(), settings=settings).growth == {"narrow": 7}
    limited = settings | {"maxNewNodes": 2}
    usual = plan(*narrow_and_wide(), settings=limited)
    assert (usual.growth, list(usual.answer.summary.notes)) == ({"narrow": 2}, []), "the named expanders decide"
    found = plan(*narrow_and_wide(), settings=limited | {"searchEffort": "BEST"})
    assert found.growth == {"wide": 2}
    assert found.pending == {}
    (note,) = found.answer.summary.notes
    assert "MOST_PODS" in note
    assert note.endswith(f"{', '.join([*settings['expanders'], 'RANDOM'])} is worse")
    assert [option.node_group for option in found.decision.options if option.chosen] == ["wide"]


def test_a_group_of_lower_rank_does_not_take_the_place_of_one_of_higher_rank() -> None:
    ranks = [{"rank": 2, "patterns": ["narrow"]}, {"rank": 1, "patterns": ["wide"]}]
    settings = {"expanders": ["PRIORITY"], "priority": {"ranks": ranks}, "maxNewNodes": 2}
    assert plan(*narrow_and_wide(), settings=settings).growth == {"narrow": 2}


RANDOM, MOST, WASTE = Expander.RANDOM, Expander.MOST_PODS, Expander.LEAST_WASTE
PRICE, PRIORITY = Expander.PRICE, Expander.PRIORITY


@pytest.mark.parametrize(
    ("expanders", "expected"),
    [
        pytest.param((WASTE, RANDOM), [(MOST, WASTE, RANDOM)], id="comes first"),
        pytest.param((PRIORITY, WASTE, RANDOM), [(PRIORITY, MOST, WASTE, RANDOM)], id="ranks come before it"),
        pytest.param((WASTE, MOST, RANDOM), [(MOST, WASTE, RANDOM)], id="comes once"),
        pytest.param((PRICE, RANDOM), [(MOST, PRICE, RANDOM)], id="prices are known"),
        pytest.param((MOST, RANDOM), [], id="is first"),
        pytest.param((PRIORITY, MOST, RANDOM), [], id="is first behind ranks"),
        pytest.param((WASTE, PRIORITY, RANDOM), [], id="ranks come later"),
        pytest.param((Expander.CHEAPEST_PLAN, RANDOM), [], id="a whole plan"),
    ],
)
def test_most_pods_decides_as_early_as_it_may(expanders: tuple[int, ...], expected: list[tuple[int, ...]]) -> None:
    assert serving_most(expanders, prices_known=True) == expected


def test_groups_of_unknown_price_stay_excluded() -> None:
    assert serving_most((PRICE, RANDOM), prices_known=False) == []
    assert serving_most((WASTE, RANDOM), prices_known=False) == [(MOST, WASTE, RANDOM)]


@pytest.fixture
def no_other_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no plan besides the usual one and that for all pods at once."""
    search_budgets(monkeypatch, variant_work=0)


def least_nodes(most_plain: int = 10, expander: str = "LEAST_NODES") -> Outcome:
    """Plan for eight pods, for which two nodes of 8 or 9 cores suffice; only one of them tolerates the taint of `own`.

    A node of `own` is the option with the fewest nodes, after which the other pods need two more.
    """
    own = pod("own", "2", tolerations=[{"key": "own", "operator": "Exists"}])
    taint = {"key": "own", "value": "yes", "effect": "NoSchedule"}
    fast, plain = node("t", "8"), node("t", "9")
    groups = [
        node_group("fast", 0, 10, target=0, template=fast, nodes=[], price=10.0),
        node_group("own", 0, 10, target=0, template=node("t", "2", taints=[taint]), nodes=[], price=1.0),
        node_group("plain", 0, most_plain, target=0, template=plain, nodes=[], price=2.0),
    ]
    settings = {"expanders": [expander], "priority": {"ranks": [{"rank": 1, "patterns": ["own"]}]}}
    return plan(*groups, own, [pod(f"p-{i}", "2") for i in range(7)], settings=settings)


@pytest.mark.usefixtures("no_other_plan")
def test_where_the_number_of_nodes_decides_all_pods_are_planned_at_once() -> None:
    found = least_nodes()
    assert found.pending == {}
    assert sum(found.growth.values()) == 2
    assert sum(least_nodes(expander="PRIORITY").growth.values()) == 3


@pytest.mark.usefixtures("no_other_plan")
def test_of_the_fewest_nodes_each_is_in_the_cheapest_group_that_takes_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    assert least_nodes().growth == {"plain": 2}
    monkeypatch.setattr(decision, "in_cheaper_groups", lambda _finding: None)
    assert least_nodes().growth == {"fast": 2}


@pytest.mark.usefixtures("no_other_plan")
def test_nodes_move_to_a_cheaper_group_only_as_far_as_it_may_grow() -> None:
    assert least_nodes(most_plain=1).growth == {"fast": 1, "plain": 1}
