"""Growth for placeholders of slack: as many nodes as they need, all-or-nothing groups, and why some wait."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders.rows import NodeRow
from tests.builders.slack import NOW_S, ROOM, cluster, decide
from tests.builders.snapshots import Cluster, Group, write
from trimtab.places import on_new_nodes
from trimtab.planner.round.round import Round
from trimtab.planner.simulation.growth import NO_GROWTH
from trimtab.planner.simulation.virtual_rows import NO_KINDS
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason, PredicateReason

LABELS = {"pool": "a"}
LARGE = {"slack": {"resources": {"cpu": {"floor": 640_000}}, "granularity": 1}}
"""160 placeholders, each as large as a node."""


def group(most: int, size: int = 0, price: float = 1.0, **more: Any) -> Group:
    return Group(0, most, size, NodeRow(allocatable=ROOM, labels=LABELS), price, **more)


def full(groups: dict[str, Group]) -> Cluster:
    """A cluster of one full node."""
    return replace(cluster(1, {f"p{i}": "n00" for i in range(8)}), groups=groups)


def grown(groups: dict[str, Group], **scale_up: Any) -> tuple[dict[str, int], pb.PlanResponse]:
    """Return by how many nodes groups grow for the placeholders, and the answer."""
    answer = decide(full(groups), LARGE | {"scaleUp": scale_up}, decisions=("SLACK", "SCALE_UP"))
    assert len(answer.slack.placeholders) == 160
    return {one.node_group: one.new_size - one.current_size for one in answer.scale_up.splits}, answer


def test_every_placeholder_gets_a_new_node_where_groups_may_grow() -> None:
    by, answer = grown({"g": group(1000, 1)})
    assert by == {"g": 160}
    assert not answer.scale_up.waiting_placeholders
    assert not answer.summary.notes


@pytest.mark.parametrize("expander", ["PRICE", "LEAST_NODES", "CHEAPEST_PLAN"])
@pytest.mark.parametrize("most", [1, 2, 40, 100, 200])
@pytest.mark.parametrize("price", [0.1, 5.0])
def test_an_all_or_nothing_group_gets_all_its_nodes_for_placeholders_or_none(
    most: int, price: float, expander: str
) -> None:
    groups = {"g": group(100, 1, 0.5), "whole": group(most, price=price, zero_or_max=True)}
    by, answer = grown(groups, expanders=[expander])
    assert by.get("whole", 0) in {0, most}
    assert sum(by.values()) >= min(99 + most, 160)
    served = [name for pods in on_new_nodes(answer.scale_up).values() for name in pods]
    waiting = [name for one in answer.scale_up.waiting_placeholders for name in one.pods]
    assert sorted(served + waiting) == sorted(one.name for one in answer.slack.placeholders)


def test_placeholders_that_wait_are_listed_with_the_reason_and_noted() -> None:
    by, answer = grown({"g": group(30, 1)})
    assert by == {"g": 29}
    (waiting,) = answer.scale_up.waiting_placeholders
    assert len(waiting.pods) == 131
    assert list(waiting.pods) == sorted(waiting.pods)
    assert dict(waiting.reasons) == {"g": NodeGroupReason.MAX_SIZE_REACHED}
    (note,) = answer.summary.notes
    assert note == f"131 placeholders ({', '.join(waiting.pods[:2])}, …) have no node after this plan: " + (
        "no node group has room left (1 of 1: filled by this plan up to the maximum size)"
    )


def test_the_bound_on_new_nodes_is_a_reason_and_so_is_a_node_that_is_too_small() -> None:
    _, answer = grown({"g": group(1000, 1)}, maxNewNodes=50)
    (waiting,) = answer.scale_up.waiting_placeholders
    assert dict(waiting.reasons) == {"g": NodeGroupReason.MAX_NEW_NODES_REACHED}
    small = group(1000)._replace(template=NodeRow(allocatable={"cpu": 1000, "pods": 10}, labels=LABELS))
    _, answer = grown({"small": small})
    (waiting,) = answer.scale_up.waiting_placeholders
    assert dict(waiting.failed_predicates) == {"small": PredicateReason.INSUFFICIENT_RESOURCES}
    assert "too small" in waiting.detail


def test_placeholders_come_before_the_virtual_nodes_of_a_round_are_laid_out() -> None:
    this = Round(canonicalize(write(full({}))), lambda *_: None, NOW_S * 10**9)  # type: ignore[arg-type, return-value]
    assert this.growth_of(pb.Decision.SCALE_UP) is NO_GROWTH.growth
    with pytest.raises(RuntimeError, match="before everything"):
        this.hold_room(this.room, (), NO_KINDS)
