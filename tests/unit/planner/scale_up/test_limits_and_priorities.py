"""Which pods get the last new nodes that limits allow, and what the others are told."""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_up import Outcome, plan

NODES: Json = {"planner": {"limits": [{"resource": "nodes", "maximum": 2}]}}
MEMORY: Json = {"planner": {"limits": [{"resource": "memory", "maximum": str(32 << 30)}]}}
LIMITS: dict[str, tuple[Json, int]] = {
    "nodes": (NODES, 9),
    "memory": (MEMORY, 9),
    "nodes added": ({"maxNewNodes": 2}, 9),
    "maximum of the group": ({}, 2),
}


def group(name: str, cpu: str, most: int = 9, **more: Any) -> Json:
    return node_group(name, 0, most, target=0, template=node("t", cpu), nodes=[], **more)


def important_and_large() -> list[Json]:
    """Return small important pods, and large unimportant ones that come first by size."""
    small = [pod(f"important-{at}", "2", priority=100) for at in range(4)]
    return [*small, *(pod(f"large-{at}", "4", priority=0) for at in range(3))]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("expanders", [["LEAST_WASTE"], ["PRICE"], ["CHEAPEST_PLAN"], ["LEAST_NODES"]], ids=str)
def test_important_pods_get_the_last_nodes_before_larger_ones(limit: str, expanders: list[str]) -> None:
    settings, most = LIMITS[limit]
    found = plan(group("g", "4", most, price=1.0), important_and_large(), settings={"expanders": expanders} | settings)
    assert found.on_new == {"g": [f"default/important-{at}" for at in range(4)]}
    assert list(found.pending) == [f"default/large-{at}" for at in range(3)]


def test_a_group_for_important_pods_grows_before_another_uses_up_the_limit() -> None:
    large = [pod(f"large-{at}", "8") for at in range(2)]
    first = pod("important", "1", priority=100, node_selector={"pool": "small"})
    small = node_group("small", 0, 9, target=0, template=node("t", "1", labels={"pool": "small"}), nodes=[])
    found = plan(group("large", "8"), small, large, first, settings={"expanders": ["MOST_PODS"], **NODES})
    assert found.on_new["small"] == ["default/important"]
    assert found.growth == {"small": 1, "large": 1}


def test_important_pods_come_first_however_many_pods_wait() -> None:
    pods = important_and_large() + [pod(f"more-{at:04}", "4") for at in range(3000)]
    many = [group(f"g{at:02}", "4", 1) for at in range(30)]
    found = plan(many, pods, settings={"maxNewNodes": 2})
    assert sorted(name for names in found.on_new.values() for name in names) == [
        f"default/important-{at}" for at in range(4)
    ]


def test_of_equally_important_pods_as_many_as_possible_get_the_last_nodes() -> None:
    pods = [pod(f"large-{at}", "3") for at in range(4)] + [pod(f"small-{at}", "500m") for at in range(16)]
    found = plan(group("g", "4"), pods, settings=NODES)
    assert found.on_new == {"g": sorted(f"default/small-{at}" for at in range(16))}


def detail(found: Outcome) -> str:
    (one,) = {one.detail for one in found.decision.unschedulable}
    return one


@pytest.mark.parametrize(
    ("settings", "most", "said"),
    [
        pytest.param(
            MEMORY,
            9,
            "1 of 1: filled by this plan as far as the limit on memory (32.0 GiB of 32.0 GiB used) allows",
            id="limit",
        ),
        pytest.param({}, 2, "1 of 1: filled by this plan up to the maximum size", id="maximum"),
        pytest.param(
            {"maxNewNodes": 2},
            9,
            "filled by this plan, which already adds the maximum number of nodes",
            id="nodes of a plan",
        ),
    ],
)
def test_a_pod_left_out_by_a_limit_has_full_nodes_as_reason(settings: Json, most: int, said: str) -> None:
    found = plan(group("g", "4", most), [pod(f"p{at}", "3") for at in range(3)], settings=settings)
    assert said in detail(found)


def test_a_pod_whose_group_cannot_grow_at_all_gets_the_limit_that_prevents_it_as_reason() -> None:
    found = plan(group("g", "4"), pod("p"), settings={"planner": {"limits": [{"resource": "cpu", "maximum": 2}]}})
    assert detail(found) == (
        "no node group helps (1 of 1: prevented from growing by the limit on cpu (0 cores of 0.002 cores used))"
    )
