"""Budgets for nodes and consolidation policies bind scale-down: which nodes stay, which wait, and for which reason."""

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set
from tests.builders.scale_down import plan

AT_ONCE: Json = {"unneededTime": "0s"}
WEB = replica_set("web", 9)
POOL = {"karpenter.sh/nodepool": "default"}
KEY = "karpenter.sh/do-not-disrupt"


def cluster(*, empty: int = 3, used: int = 0, pods: Json | None = None, labels: Json | None = None) -> list[Json]:
    """Return empty nodes, nodes with a small pod each, and one with room for all."""
    names = [*(f"e{i}" for i in range(empty)), *(f"u{i}" for i in range(used))]
    small = [pod(f"p{i}", "100m", node=f"u{i}", owner=WEB, annotations=pods) for i in range(used)]
    large = [node("full", "8", labels=labels), pod("busy", "6", node="full", owner=WEB)]
    nodes = [node(name, labels=labels) for name in names]
    return [WEB, *nodes, *small, *large, node_group("g", nodes=[*names, "full"])]


def budgets(*given: Json) -> Json:
    return {"planner": {"disruptionBudgets": list(given)}}


def test_no_more_nodes_go_at_the_same_time_than_a_budget_allows() -> None:
    found = plan(cluster(), settings=AT_ONCE | budgets({"maxNodes": "1"}))
    assert list(found.decision.delete_empty) == ["e0"]
    assert {name for name, reason in found.not_now.items() if reason == "DISRUPTION_BUDGET"} == {"e1", "e2"}


@pytest.mark.parametrize("nodes", ["0", "0%"])
def test_a_budget_of_no_node_is_the_reason_why_all_of_its_part_stay(nodes: str) -> None:
    found = plan(cluster(), settings=AT_ONCE | budgets({"maxNodes": nodes}))
    assert set(found.reasons.values()) == {"DISRUPTION_BUDGET"}


def test_a_budget_for_one_reason_binds_nodes_that_leave_for_it() -> None:
    found = plan(cluster(used=1), settings=AT_ONCE | budgets({"maxNodes": "0", "reasons": ["Underutilized"]}))
    assert found.reasons["u0"] == "DISRUPTION_BUDGET"
    assert list(found.decision.delete_empty) == ["e0", "e1", "e2"]


def test_a_budget_counts_the_nodes_of_its_selector_and_those_that_leave_already() -> None:
    given = {"maxNodes": "1", "nodes": {"matchLabels": POOL}}
    assert len(plan(cluster(), settings=AT_ONCE | budgets(given)).decision.delete_empty) == 3
    of_pool = cluster(labels=POOL)
    assert len(plan(of_pool, settings=AT_ONCE | budgets(given)).decision.delete_empty) == 1
    of_pool[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert len(plan(of_pool, settings=AT_ONCE | budgets(given)).decision.delete_empty) == 0


@pytest.mark.parametrize(
    ("consolidation", "stays"),
    [
        ("WHENEVER_POSSIBLE", {}),
        ("WHEN_EMPTY", {"u0": "NOT_EMPTY", "full": "NOT_EMPTY"}),
        ("NEVER", dict.fromkeys(["e0", "e1", "e2", "u0", "full"], "NOT_CONSOLIDATED")),
    ],
)
def test_a_policy_keeps_nodes_for_a_reason_of_its_own(consolidation: str, stays: dict[str, str]) -> None:
    more = {"nodeGroups": {"g": {"consolidation": consolidation}}}
    found = plan(cluster(used=1), settings=AT_ONCE | more)
    assert {name: why for name, why in found.reasons.items() if why != "NOT_UNDERUTILIZED"} == stays


@pytest.mark.parametrize(
    ("labels", "value", "stays"),
    [(POOL, "true", True), (POOL, "87600h", True), (POOL, "1m", False), (POOL, "yes", False), ({}, "true", False)],
)
def test_a_pod_that_must_not_be_disrupted_keeps_its_node_of_karpenter(labels: Json, value: str, *, stays: bool) -> None:
    found = plan(cluster(empty=0, used=1, pods={KEY: value}, labels=labels), settings=AT_ONCE)
    assert (found.reasons.get("u0") == "BLOCKED_BY_POD") is stays
