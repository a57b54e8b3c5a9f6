"""Which nodes are replaced, by what, and what keeps others; every plan is verified by the certificate."""

from random import Random

import pytest

from tests.builders.kubernetes import Json, labelled, pdb, pod, replica_set
from tests.builders.replacement import NOW_S, WEB, Outcome, group, least_price, plan, small_cluster, web
from trimtab.clients.verdicts import not_replaced
from trimtab.v1 import plan_pb2

LARGE, SMALL = ("16", "64Gi", 1.0), ("4", "16Gi", 0.2)


def half_used(count: int = 2, **more: object) -> list[Json]:
    """Return large nodes with three small pods each, and a group of small nodes."""
    names = [f"l{i}" for i in range(count)]
    pods = [web(f"{name}-{i}", name, **more) for name in names for i in range(3)]
    return [WEB, *group("large", *LARGE, names), *group("small", *SMALL), *pods]


def test_two_large_nodes_are_replaced_by_two_small_ones_that_cost_less() -> None:
    found = plan(half_used())
    assert found.waves == [(["l0", "l1"], ["small", "small"])]
    assert found.cost.now_per_hour == pytest.approx(2.0)
    assert found.cost.after_per_hour == pytest.approx(0.4)
    assert found.cost.bound_per_hour == pytest.approx(0.3, rel=0.01)


def test_four_small_nodes_are_replaced_by_one_that_serves_all() -> None:
    names = [f"s{i}" for i in range(4)]
    pods = [web(f"p{i}", name, "3") for i, name in enumerate(names)]
    found = plan([WEB, *group("dear", "4", "16Gi", 0.5, names), *group("one", "16", "64Gi", 0.9), *pods])
    assert found.waves == [(names, ["one"])]


def test_nodes_of_groups_without_price_neither_go_nor_come() -> None:
    found = plan(half_used(1), *group("unknown", "2", "8Gi", None, ["u0"]), [web("u", "u0")])
    assert found.waves == [(["l0"], ["small"])]
    assert "u0" not in found.kept
    assert found.cost.unpriced_node_count == 1
    assert "unknown" in found.decision.excluded


def test_equal_prices_change_nothing() -> None:
    found = plan([WEB, *group("a", "4", "16Gi", 0.2, ["a0"]), *group("b", "4", "16Gi", 0.2), web("p", "a0", "3")])
    assert (found.result, found.waves) == ("NOTHING_PAYS", [])
    assert found.kept == {"a0": "NOTHING_CHEAPER"}


def test_a_plan_is_not_undone_by_prices_that_differ_within_the_margin() -> None:
    """A node that costs 10 % less is not worth it; one that costs 40 % less is, and the way back never."""

    def found(price: float, nodes: str = "a") -> Outcome:
        names = {"a": ["x"], "b": []} if nodes == "a" else {"a": [], "b": ["x"]}
        groups = [*group("a", "4", "16Gi", 1.0, names["a"]), *group("b", "4", "16Gi", price, names["b"])]
        return plan([WEB, *groups, web("p", "x", "3")])

    assert found(0.9).waves == []
    assert found(0.6).waves == [(["x"], ["b"])]
    assert found(0.6 * 1.1 / 0.9, nodes="b").waves == []


def test_a_group_at_its_maximum_gets_nodes_once_others_of_it_have_left() -> None:
    found = plan(half_used(), *group("full", "8", "32Gi", 0.1, ["f0"], max_size=1), [web("p", "f0", "7")])
    assert all(groups.count("full") == 0 for _, groups in found.waves)


def test_a_node_that_costs_nothing_stays_and_one_of_a_free_group_is_taken() -> None:
    found = plan([WEB, *group("paid", *SMALL, ["p0"]), *group("free", "4", "16Gi", 0.0, ["f0"]), web("p", "p0", "3"),
                  web("q", "f0", "3")])  # fmt: skip
    assert found.waves == [(["p0"], ["free"])]


def test_a_huge_surge_is_no_reason_for_more_nodes_than_needed() -> None:
    found = plan(half_used(3), settings={"maxSurgeNodes": 2_000_000_000, "maxLeavingNodes": 2_000_000_000})
    assert found.waves == [(["l0", "l1", "l2"], ["small", "small", "small"])]


def test_waves_have_no_more_nodes_than_the_settings_allow() -> None:
    found = plan(half_used(3), settings={"maxLeavingNodes": 1, "maxWaves": 2})
    assert [leaving for leaving, _ in found.waves] == [["l0"], ["l1"]]
    assert found.kept == {"l2": "SURGE_LIMIT"}


def test_a_disruption_budget_of_pods_spreads_a_plan_over_waves() -> None:
    budget = pdb("web", 3, selector=labelled(app="web"), healthy=6, desired=3, expected=6)
    found = plan(half_used(labels={"app": "web"}), [budget])
    assert [leaving for leaving, _ in found.waves] == [["l0"], ["l1"]]


@pytest.mark.parametrize(("allowed", "waves"), [(1, 1), (0, 0)])
def test_one_node_may_have_more_pods_than_a_budget_allows_at_once_if_it_allows_any(allowed: int, waves: int) -> None:
    budget = pdb("web", allowed, selector=labelled(app="web"))
    assert len(plan(half_used(1, labels={"app": "web"}), [budget]).waves) == waves


def test_a_budget_for_nodes_rounds_up_and_holds_for_each_wave() -> None:
    found = plan(half_used(3), more={"planner": {"disruptionBudgets": [{"maxNodes": "34%"}]}})
    assert max(len(leaving) for leaving, _ in found.waves) == 2
    assert sum(len(leaving) for leaving, _ in found.waves) == 3


def test_a_budget_of_zero_stops_everything_while_its_schedule_is_active() -> None:
    at = {"maxNodes": "0", "schedule": "0 8 * * *", "duration": "3600s"}
    eight = NOW_S - NOW_S % 86_400 + 8 * 3600
    assert plan(half_used(), more={"planner": {"disruptionBudgets": [at]}}, now_s=eight + 60).result == "LIMITED"
    assert plan(half_used(), more={"planner": {"disruptionBudgets": [at]}}, now_s=eight + 3600).result == "PLANNED"


def test_the_minimum_of_a_group_keeps_a_node() -> None:
    objects = [WEB, *group("large", *LARGE, ["l0", "l1"], min_size=1), *group("small", *SMALL)]
    found = plan(objects, [web("a", "l0"), web("b", "l1")])
    assert sum(len(leaving) for leaving, _ in found.waves) == 1


def test_a_pod_that_may_not_be_evicted_keeps_its_node_and_is_named() -> None:
    lonely = pod("lonely", "1", "1Gi", node="l0")
    found = plan([WEB, *group("large", *LARGE, ["l0"]), *group("small", *SMALL), lonely])
    assert found.waves == []
    (kept,) = (one.not_replaced for one in not_replaced(found.answer))
    assert (found.kept["l0"], kept.blocking_pod) == ("NODE_NOT_REMOVABLE", "default/lonely")
    assert kept.saving_per_hour > 0.9


def test_young_nodes_and_nodes_with_young_pods_stay() -> None:
    young = half_used(1, created="2027-01-15T07:59:00Z")
    found = plan(young, settings={"consolidateAfter": "3600s"})
    assert (found.waves, found.kept) == ([], {"l0": "TOO_YOUNG"})
    assert plan(young).waves != []


def test_consolidate_after_of_a_node_group_counts_for_its_nodes_alone() -> None:
    young = half_used(1, created="2027-01-15T07:59:00Z")
    of_group = {"large": {"consolidateAfter": "3600s"}, "small": {"consolidateAfter": "0s"}}
    found = plan(young, more={"nodeGroups": of_group})
    assert (found.waves, found.kept) == ([], {"l0": "TOO_YOUNG"})
    assert plan(young, more={"nodeGroups": {"small": {"consolidateAfter": "3600s"}}}).waves != []
    assert plan(
        young, settings={"consolidateAfter": "3600s"}, more={"nodeGroups": {"large": {"consolidateAfter": "0s"}}}
    ).waves


def test_savings_too_small_for_the_settings_are_left() -> None:
    assert plan(half_used(), settings={"minSavingPerHour": 1.7}).waves == []
    assert plan(half_used(), settings={"minSavingPerEviction": 0.4}).waves == []
    assert plan(half_used(1), settings={"minSavingShare": 0.9}).waves == []
    assert plan(half_used(1), settings={"minBalancedScore": 1.0}).waves == []


def test_a_minimum_above_all_that_could_be_saved_is_named_as_the_reason() -> None:
    """Before, the reason of each node was that nothing cheaper was found, and the result gave none."""
    nodes = group("large", "16", "64Gi", 1.0, ["l0", "l1"])
    found = plan(nodes, WEB, web("p", "l0"), web("q", "l1"), settings={"minSavingPerHour": 1e308})
    assert found.kept == {"l0": "SAVING_TOO_SMALL", "l1": "SAVING_TOO_SMALL"}
    assert found.result == "NOTHING_PAYS"
    assert "no plan saves more than 1.875 an hour" in found.decision.detail
    assert "ask for 1e+308" in found.decision.detail


def test_a_budget_that_names_a_node_group_which_does_not_exist_is_noted() -> None:
    """Before, a budget with a mistyped name had no effect, and nothing said so."""
    nodes = group("large", "16", "64Gi", 1.0, ["l0", "l1"])
    budgets = [{"maxNodes": "1"}, {"maxNodes": "0", "nodeGroups": ["large", "larg"]}]
    found = plan(nodes, WEB, web("p", "l0"), web("q", "l1"), more={"planner": {"disruptionBudgets": budgets}})
    text = "planner.disruption_budgets[1].node_groups: there is no node group 'larg'; check its name"
    assert [one for one in found.answer.summary.notes if "budgets" in one] == [text]


def test_moves_that_cost_more_than_is_saved_in_the_payback_time_are_left() -> None:
    costly = {"pricePerEviction": 1.0, "maxPaybackTime": "7200s"}
    assert plan(half_used(), settings=costly).waves == []
    found = plan(half_used(), settings=costly | {"maxPaybackTime": "36000s"})
    assert found.waves != []
    (option,) = found.decision.frontier
    assert option.payback_time.seconds == 13_500


def test_of_sets_that_save_the_same_the_one_that_moves_fewest_pods_leaves() -> None:
    pods = [
        *(web(f"l0-{i}", "l0") for i in range(3)),
        web("l1-0", "l1", "3"),
        *(web(f"l2-{i}", "l2") for i in range(3)),
    ]
    objects = [WEB, *group("large", *LARGE, ["l0", "l1", "l2"]), *group("small", *SMALL), *pods]
    found = plan(objects, settings={"maxLeavingNodes": 1, "maxWaves": 1})
    assert [leaving for leaving, _ in found.waves] == [["l1"]]


def test_the_frontier_rises_and_the_careful_choice_is_its_first_plan() -> None:
    one_by_one = {"maxLeavingNodes": 1}
    found = plan(half_used(3), settings=one_by_one)
    assert [one.leaving_node_count for one in found.decision.frontier] == [1, 2, 3]
    careful = plan(half_used(3), settings=one_by_one | {"choice": "CAREFUL"})
    assert [one.chosen for one in careful.decision.frontier] == [True, False, False]
    assert len(careful.waves) == 1


def test_karpenters_numbers_give_karpenters_balanced_score() -> None:
    """A node of $9.68 a day with three of the eight pods of its group is replaced by one of $2.42."""
    pods = [web(f"l0-{j}", "l0", "300m") for j in range(3)] + [web(f"l1-{j}", "l1", "1500m") for j in range(5)]
    found = plan([WEB, *group("big", "8", "32Gi", 9.68, ["l0", "l1"]), *group("half", "1", "8Gi", 2.42), *pods])
    assert found.waves == [(["l0"], ["half"])]
    assert found.decision.frontier[0].balanced_score == pytest.approx((7.26 / 19.36) / (4 / 10))


def test_a_plan_waits_until_it_has_been_the_same_for_the_stable_time() -> None:
    settings = {"stableTime": "600s"}
    first = plan(half_used(), settings=settings)
    assert (first.result, first.waves) == ("LIMITED", [])
    early = plan(half_used(), settings=settings, state=first.answer.state, now_s=NOW_S + 599)
    late = plan(half_used(), settings=settings, state=early.answer.state, now_s=NOW_S + 600)
    assert (early.waves, len(late.waves)) == ([], 1)


def test_nodes_that_have_not_paid_back_and_groups_that_had_no_node_are_left_out_until_their_time() -> None:
    def state(**parts: object) -> plan_pb2.PlanState:
        times = {key: _times(1, NOW_S + 60) for key in parts}
        return plan_pb2.PlanState(
            replacement=plan_pb2.ReplacementState(strings=["", str(next(iter(parts.values())))], **times)  # type: ignore[arg-type]
        )

    not_paid = plan(half_used(1), state=state(paid_back="l0"))
    assert (not_paid.waves, not_paid.kept) == ([], {"l0": "NOT_PAID_BACK"})
    assert plan(half_used(1), state=state(avoided_groups="small")).waves == []
    assert plan(half_used(1), state=state(avoided_groups="small"), now_s=NOW_S + 61).waves != []


def _times(string: int, time_s: int) -> plan_pb2.NodeTimes:
    return plan_pb2.NodeTimes(node=string.to_bytes(4, "little"), time_ns=(time_s * 10**9).to_bytes(8, "little"))


def spot_groups(nodes: int, others: int, pods: int) -> list[Json]:
    """Return spot nodes of 4 cores with a pod each of `pods` cores, and cheaper groups of spot nodes alike."""
    names = [f"l{i}" for i in range(nodes)]
    found = [WEB, *group("large", "4", "16Gi", 1.0, names), *(web(f"p-{name}", name, cpu=str(pods)) for name in names)]
    for i in range(others):
        found += group(f"small-{i}", *SMALL)
    for one in found:
        if one["kind"] == "Node":
            one["metadata"].setdefault("labels", {}).update(SPOT)
        if one["kind"] == "NodeGroup":
            one["spec"]["template"]["metadata"].setdefault("labels", {}).update(SPOT)
    return found


SPOT = {"karpenter.sh/capacity-type": "spot"}


def test_spot_nodes_are_replaced_by_spot_nodes_only_with_enough_alternatives() -> None:
    assert plan(spot_groups(1, 2, 1)).waves == []
    assert len(plan(spot_groups(1, 3, 1)).waves) == 1
    assert plan(spot_groups(1, 3, 1), settings={"spot": {"enabled": False}}).waves == []


def test_several_swaps_of_one_spot_node_each_need_alternatives_as_one_does() -> None:
    assert plan(spot_groups(2, 1, 3)).waves == []
    assert plan(spot_groups(2, 3, 3)).waves == [(["l0", "l1"], ["small-0", "small-0"])]


def test_two_spot_nodes_may_become_one_without_alternatives() -> None:
    assert plan(spot_groups(2, 1, 1)).waves == [(["l0", "l1"], ["small-0"])]
    assert plan(spot_groups(2, 1, 1), settings={"spot": {"enabled": False}}).waves == [(["l0"], [])]


def test_switched_off_means_not_tried() -> None:
    assert plan(half_used(), settings={"enabled": False}).result == "NOT_TRIED"


def test_small_clusters_become_as_cheap_as_any_or_nearly() -> None:
    ratios = []
    for seed in range(12):
        cluster = small_cluster(Random(seed))
        found = plan(cluster.objects(), settings={"stabilityMargin": 0, "minSavingShare": 0})
        best = least_price(cluster)
        assert found.cost.bound_per_hour <= best + 1e-9
        assert found.cost.after_per_hour >= best - 1e-9
        ratios.append(found.cost.after_per_hour / best if best else 1.0)
    assert sum(ratios) / len(ratios) <= 1.01


def test_pods_of_other_owners_go_to_new_nodes_too() -> None:
    other = replica_set("other", 2)
    found = plan([WEB, other, *group("large", *LARGE, ["l0"]), *group("small", *SMALL)],
                 [web("a", "l0"), pod("b", "1", "1Gi", node="l0", owner=other)])  # fmt: skip
    assert found.waves == [(["l0"], ["small"])]


def test_pods_of_a_node_that_is_gone_do_not_stop_the_decision_where_one_node_is_left() -> None:
    large = [*group("large", *LARGE, ["l0"]), *group("small", *SMALL)]
    found = plan([WEB, *large, web("a", "l0")], [web("b", "gone")])
    assert found.waves == [(["l0"], ["small"])]
