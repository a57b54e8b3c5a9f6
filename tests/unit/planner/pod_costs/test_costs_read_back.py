"""Costs read back from the cluster are validated before they enter a decision: any client that may write pods may have
set them.

A cost that the ReplicaSet controller would not accept counts as absent. An accepted one only rates the eviction of its
pod, within bounds: ranks, and thus the costs written next, do not depend on it.
"""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set
from tests.builders.pod_costs import NUMBER, S, at, decide, target, term
from trimtab.v1 import plan_pb2 as pb

COST, RANK = "controller.kubernetes.io/pod-deletion-cost", "scheduling.alpha.kubernetes.io/cost"
WEB = replica_set("web", 4)
INVALID = (
    "", "x", "1.5", "1e3", "+5", "05", "-0", " 5", "5 ", "٣", "0x10", "NaN", "null", "2147483648", "-2147483649",
    "9" * 5000,
)  # fmt: skip
VALID = ("0", "7", "-7", "2147483647", "-2147483648")
STRATEGIES = [S.BALANCE_DOMAINS, S.YOUNGEST, S.OLDEST, S.NODE_DRAIN, S.NODE_COST, S.UNTOLERATED_TAINTS, S.IDLE]


def answer(cost: str | None, key: str = COST) -> pb.PlanResponse:
    """Plan a cluster of two nodes; on one of them every pod has a cost."""
    objects: list[Json] = [WEB, node_group("g", nodes=["n0", "n1"], price=1.0)]
    objects += [node(f"n{i}", zone="ab"[i]) for i in range(2)]
    for i in range(4):
        annotations = {NUMBER: str(i)} | ({key: cost} if cost is not None and i % 2 else {})
        objects.append(pod(f"w{i}", node=f"n{i % 2}", owner=WEB, created=at(i), annotations=annotations))
    settings = pb.ScaleDownSettings()
    settings.unneeded_time.SetInParent()
    return decide(objects, target(*map(term, STRATEGIES)), scale_down=settings)


def eviction_costs(found: pb.PlanResponse) -> dict[str, float]:
    return {one.node: one.eviction_cost for one in found.scale_down.unneeded}


def comparable(found: pb.PlanResponse) -> Any:
    """Return the decisions."""
    return found.scale_down, found.pod_costs


@pytest.mark.parametrize("cost", INVALID, ids=lambda cost: repr(cost[:12]))
def test_a_cost_that_the_controller_would_not_accept_counts_as_none(cost: str) -> None:
    assert comparable(answer(cost)) == comparable(answer(None))


@pytest.mark.parametrize("cost", VALID)
def test_ranks_do_not_depend_on_costs_that_pods_have(cost: str) -> None:
    found = ranked(cost)
    assert found.groups[0].complete
    assert found == ranked(None)


def ranked(cost: str | None) -> pb.PodCostsDecision:
    """Rank by all strategies that do not depend on scale-down."""
    annotations = {COST: cost} if cost is not None else {}
    objects: list[Json] = [WEB, node_group("g", nodes=["n0"], price=1.0), node("n0", zone="a")]
    objects += [
        pod(f"w{i}", node="n0", owner=WEB, created=at(i), annotations={NUMBER: str(i)} | (annotations if i % 2 else {}))
        for i in range(4)
    ]
    terms = [term(one) for one in STRATEGIES if one != S.NODE_DRAIN]
    return decide(objects, target(*terms)).pod_costs


@pytest.mark.parametrize("cost", VALID)
def test_a_cost_rates_the_eviction_of_its_pod_within_bounds(cost: str) -> None:
    rated = eviction_costs(answer(cost))
    assert rated
    for name, value in rated.items():
        one = max(min(1.0 + int(cost) / 2**27, 10.0), -10.0) if name == "n1" else 1.0
        assert value == 2 * one


def test_the_rank_that_is_written_beside_a_cost_is_not_read_at_all() -> None:
    assert comparable(answer("900000", RANK)) == comparable(answer(None))
