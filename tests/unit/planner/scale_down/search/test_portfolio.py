"""Which plan is chosen: at least as many nodes as upstream's order frees, then saving."""

from unittest.mock import patch

import numpy as np
import pytest

from tests.builders.drain_sets import APP, WEB, big_or_small, web
from tests.builders.kubernetes import Json, labelled, node, node_group, pdb, pod, spread
from tests.builders.scale_down import NOW_S, plan
from trimtab.planner.scale_down.search import portfolio
from trimtab.planner.scale_down.search.headroom import CandidateOrder, shuffled
from trimtab.v1 import plan_pb2
from trimtab.v1.opaque_state_pb2 import OpaqueState


def test_a_plan_that_saves_more_does_not_free_fewer_nodes_than_upstreams_order() -> None:
    objects = [*big_or_small()]
    found = plan(objects, settings={"objective": "COUNT"})
    assert found.unneeded == ["small-1", "small-2"]
    assert found.change.objective == plan_pb2.Objective.COUNT


@pytest.mark.parametrize("settings", [{}, {"objective": "MONEY"}], ids=["by default", "by setting"])
def test_the_saving_decides_where_all_prices_are_known(settings: Json) -> None:
    found = plan(big_or_small(), settings=settings)
    assert found.unneeded == ["big"]
    assert found.change.objective == plan_pb2.Objective.MONEY
    assert found.bound >= 9.0


def test_the_number_of_nodes_decides_where_a_candidate_has_no_price() -> None:
    objects = [*big_or_small(), node("more", "2"), node_group("unpriced", nodes=["more"], target=1)]
    found = plan(objects)
    assert found.change.objective == plan_pb2.Objective.COUNT
    assert found.bound == 0.0


def test_the_first_effort_says_how_far_the_linear_bound_is() -> None:
    found = plan(big_or_small(), settings={"searchEffort": "FIRST"})
    saved = found.saving_per_hour
    assert found.bound >= max(saved, 9.0)


def test_a_plan_finds_what_only_some_other_order_frees() -> None:
    # By price the expensive node goes first, and its pods then fill the cheap ones.
    assert plan(big_or_small(), settings={"candidateOrders": ["PRICE"], "objective": "COUNT"}).unneeded == ["big"]
    found = plan(big_or_small(), settings={"objective": "COUNT"})
    assert found.unneeded == ["small-1", "small-2"]


def under_budget(allowed: int, pods: dict[str, int]) -> list[Json]:
    """Return nodes with pods under one budget, and a large node outside the group."""
    return [
        WEB, *(node(name) for name in pods), node("roomy", "64"), node_group("g", nodes=list(pods), target=9),
        pdb("budget", allowed, labels=APP),
        *(web(f"{name}-{i}", "100m", name) for name, count in pods.items() for i in range(count)),
    ]  # fmt: skip


def test_a_node_with_more_pods_than_its_budget_ever_allows_at_once_has_a_wave_of_its_own() -> None:
    found = plan(under_budget(2, {"n1": 3, "n2": 1, "n3": 1}))
    assert {one.node: one.wave for one in found.going} == {"n1": 2, "n2": 1, "n3": 1}
    again = plan(under_budget(2, {"n1": 3, "n2": 1, "n3": 1}), state=found.state, now_s=NOW_S + 10)
    assert again.unneeded == found.unneeded
    assert again.counts["searched_places"] == 0


def test_a_node_stays_whose_budget_allows_no_eviction() -> None:
    assert plan(under_budget(1, {"n1": 2})).unneeded == ["n1"]
    assert plan(under_budget(0, {"n1": 2})).blocking["n1"] == ("default/n1-0", "NOT_ENOUGH_PDB")


def test_no_plan_relies_on_pending_pods_to_keep_zones_even() -> None:
    # p2 fills its zone, the pending pod would fill the other: p1 could go to n5 only after it is bound.
    even = {"spread": [spread(labelled(**APP))]}
    objects = [
        WEB, node("n1", "4", zone="u"), node("n2", "1", zone="u"), node("n3", "1", zone="v"), node("n5", "4", zone="u"),
        node_group("g", nodes=["n1"], target=1),
        web("p1", "1", "n1", **even), web("p2", "1", "n2", **even), web("waiting", "1", **even),
    ]  # fmt: skip
    assert plan(objects).reasons["n1"] == "NO_PLACE_TO_MOVE_PODS"


def test_nodes_with_the_price_zero_are_weighed_against_a_minimum_too() -> None:
    minimum = {"planner": {"limits": [{"resource": "cpu", "minimum": 2000}]}}
    objects = [
        WEB, node("n1", "2"), node("n2", "2"), node("n3", "2"),
        node_group("free", nodes=["n1"], target=1, price=0.0), node_group("paid", nodes=["n2"], target=1, price=1.0),
        web("p1", "1500m", "n1"), web("p2", "1500m", "n2"), web("p3", "100m", "n3"),
    ]  # fmt: skip
    assert plan(objects, settings={"utilizationThreshold": 1.0} | minimum).unneeded == ["n2"]


@pytest.mark.parametrize("number", [0, 3])
def test_a_shuffled_order_loses_no_candidate_and_is_always_the_same(number: int) -> None:
    candidates = np.arange(50, 150, dtype=np.int32)
    found = shuffled(candidates, number)
    assert sorted(found.tolist()) == candidates.tolist() != found.tolist()
    assert found.tolist() == shuffled(candidates, number).tolist() != shuffled(candidates, number + 1).tolist()


def test_the_baseline_by_name_tries_empty_nodes_first_as_upstream_does() -> None:
    objects = [
        WEB, node("n1", "2"), node("n2", "2"), node("n3", "2"), node("n4", "2"),
        node_group("g", nodes=["n1", "n2", "n3", "n4"], target=4, price=1.0),
        web("p1", "900m", "n1"), web("p3", "900m", "n3"),
    ]  # fmt: skip
    with patch.object(portfolio, "PlannedAttempt", wraps=portfolio.PlannedAttempt) as planned:
        plan(objects)
    rows = [call.args for call in planned.call_args_list]
    assert next(args[1].tolist() for args in rows if args[2] == CandidateOrder.NAME) == [1, 3, 0, 2]


def test_what_a_plan_saves_is_added_in_one_order_before_it_goes_into_the_state() -> None:
    # Forty of sixty nodes of different prices go; summed by blocks, as numpy does, the last digits differ.
    prices = [0.1 + number / 700 for number in range(60)]
    objects: list[Json] = [WEB]
    for number, price in enumerate(prices):
        name = f"n{number:02}"
        objects += [node(name, "3"), node_group(name, nodes=[name], target=1, price=price)]
        objects += [web(f"p{number:02}", "1", name)]
    with patch.object(portfolio, "saving_bound", return_value=1.0):
        found = plan(objects)
    assert len(found.unneeded) == 40
    saved = 0.0
    for name in sorted(found.unneeded):
        saved += prices[int(name[1:])]
    assert saved != float(np.array([prices[int(name[1:])] for name in found.unneeded]).sum())
    assert OpaqueState.FromString(found.state.opaque).headroom == 1.0 / saved


def by_mix() -> list[Json]:
    """Return a priced node with four pods of much and eight of little memory, and empty nodes outside its group that
    take them all only if the first and the last, with a quarter of the middle one's memory, get those of little."""
    heavy = [pod(f"a-heavy-{at}", "1", "4Gi", node="goes", owner=WEB) for at in range(4)]
    light = [pod(f"b-light-{at}", "1", "1Gi", node="goes", owner=WEB) for at in range(8)]
    stay = [node(name, "4", memory=size) for name, size in (("a-poor", "5Gi"), ("b-rich", "17Gi"), ("c-poor", "5Gi"))]
    return [WEB, node("goes", "30", memory="64Gi"), *stay, *heavy, *light, node_group("g", nodes=["goes"], price=1.0)]


def test_pods_go_to_nodes_with_their_mix_of_cpu_and_memory_where_no_exchange_is_made() -> None:
    with patch.object(portfolio, "is_worth_exchanging", return_value=False):
        found = plan(by_mix())
    assert found.unneeded == ["goes"]
    assert {target for pod, target in found.destinations.items() if "heavy" in pod} == {"b-rich"}
