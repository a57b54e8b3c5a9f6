"""Balanced scores by NodePool."""

import pytest

from tests.builders.kubernetes import Json
from tests.builders.replacement import WEB, group, plan, web

ALL_AT_ONCE: Json = {"stabilityMargin": 0, "minSavingShare": 0, "maxWaves": 1}
STAYS = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}


def pooled(pools: dict[str, str]) -> list[Json]:
    """Return three nodes with pods, of which two may go; pools : NodePool by node."""
    found = [WEB, *group("dear", "8", "32Gi", 1.0, ["a1", "a2", "b1"]), *group("cheap", "8", "32Gi", 0.4)]
    for one in found:
        if one["kind"] == "Node":
            name = one["metadata"]["name"]
            one["metadata"]["labels"] = one["metadata"].get("labels", {}) | (
                {"karpenter.sh/nodepool": pools[name]} if name in pools else {}
            )
            if name == "a2":
                one["metadata"]["annotations"] = STAYS
    sizes = {"a1": 1, "a2": 3, "b1": 2}
    return found + [web(f"{name}-{i}", name, "2400m") for name, count in sizes.items() for i in range(count)]


def score(pools: dict[str, str], least: float = 0.0) -> float | None:
    """Return the score of the plan that replaces both nodes by one, None if that is not made."""
    found = plan(pooled(pools), settings=ALL_AT_ONCE | {"minBalancedScore": least})
    if found.waves != [(["a1", "b1"], ["cheap"])]:
        return None
    return found.decision.frontier[0].balanced_score


def test_a_pool_counts_with_its_own_nodes_and_the_least_score_of_several_is_shown_and_compared() -> None:
    """Each of the two saves 0.8, half of it all; pool a has two nodes and four pods, pool b one node and two pods."""
    pools = {"a1": "a", "a2": "a", "b1": "b"}
    of_a, of_b = (0.8 / 2) / (2 / 6), (0.8 / 1) / (3 / 3)
    assert of_b < of_a
    assert score(pools) == pytest.approx(of_b)
    assert score(pools, 0.79) == pytest.approx(of_b)
    assert score(pools, 0.81) is None


def test_nodes_of_one_pool_and_nodes_of_none_count_together() -> None:
    together = (1.6 / 3) / (5 / 9)
    assert score(dict.fromkeys(("a1", "a2", "b1"), "a")) == pytest.approx(together)
    assert score({}) == pytest.approx(together)
