"""Twenty loops of a changing random cluster: pods come and go, nodes are deleted, some deletions fail, nodes die.

The certificate verifies every plan (in `plan_message`). Between loops the test acts as scheduler and actuator: the pods
of a removed node move to their planned nodes, or stay if its deletion fails.
"""

from random import Random
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import (
    Json,
    node,
    node_group,
    pod,
    replica_set,
    snapshot_of,
)
from tests.builders.scale_down import NOW_S, Outcome, even, plan_message
from tests.builders.scale_down_loops import LOOPS, SETTINGS, STEP_S, ShrinkingCluster, since
from trimtab.planner.scale_down.search import portfolio
from trimtab.v1 import plan_pb2, snapshot_pb2

OTHERS: dict[str, list[Json]] = {
    "cool-downs": [
        {}, {}, {"delayAfterAdd": "120s", "delayAfterDelete": "60s", "delayAfterFailure": "180s"},
        {"delayAfterAdd": "180s", "delayAfterFailure": "120s", "delayTypeLocal": True},
    ],
    "balance": [
        {}, {}, {"balance": True, "candidateOrders": ["PRICE", "UTILIZATION"]}, even(1),
        {"balance": True, **even(1)},
    ],
    "orders": [{}, {}, {"candidateOrders": ["PRICE", "NAME"]}, {"objective": "MONEY"}],
    "bounds": [{}, {}, {}, {"maxEvaluatedNodes": 2}, {"maxDrainParallelism": 1}],
    "unready": [{}, {"unreadyEnabled": False}],
    "pending": [{}, {"planner": {"reserveForPendingPods": False}}],
}  # fmt: skip
"""One of these is drawn for each concern."""


def some_settings(random: Random) -> Json:
    """Draw settings that differ from `SETTINGS` in some concerns."""
    chosen: Json = dict(SETTINGS)
    for ways in OTHERS.values():
        drawn = random.choice(ways)
        # Several concerns have planner settings, so they are merged.
        planner = chosen.get("planner", {}) | drawn.get("planner", {})
        chosen |= drawn | ({"planner": planner} if planner else {})
    return chosen


def assert_timers_go_on(now_s: int, before: dict[str, int], found: Outcome) -> None:
    """Check that a node that stays unneeded keeps its time, and that a new one starts now."""
    for name, start in since(found).items():
        assert start == before.get(name, now_s)


def assert_nothing_flaps(world: ShrinkingCluster, settings_now: Json, found: Outcome, now_s: int) -> None:
    """Check that the same request at once gets the same answer from the state; only unplaceable pods are retried."""
    again = plan_message(world.message(), settings_now, found.state, now_s + 1)
    assert again.unneeded == found.unneeded
    assert again.counts["searched_places"] <= sum(not at for _, _, at in world.pods.values())
    assert again.destinations == found.destinations
    assert since(again) == since(found)


def move_budgets(world: ShrinkingCluster) -> None:
    """Add, raise, lower and remove budgets, as if their pods started and failed elsewhere."""
    for app in "wxz":
        if world.random.random() < 0.3:
            world.budgets[app] = world.random.randint(0, 4)
    if world.random.random() < 0.1:
        world.budgets.pop(world.random.choice("xz"), None)


@given(seed=st.integers(0, 2**32))
@example(seed=3841598)
@examples(25, 3)
def test_a_living_cluster_gets_a_proven_plan_in_every_loop(seed: int) -> None:
    """Settings, budgets and the given state change from loop to loop: the last state, an older one, or none."""
    world = ShrinkingCluster(Random(seed))
    chosen = some_settings(world.random)
    states: list[tuple[plan_pb2.ScaleDownState | None, dict[str, int]]] = [(None, {})]
    for loop in range(LOOPS):
        world.loop = loop
        move_budgets(world)
        if world.random.random() < 0.2:
            chosen = some_settings(world.random)
        state, before = states[-1] if world.random.random() < 0.8 else world.random.choice(states)
        now_s = NOW_S + STEP_S * loop
        found = plan_message(world.message(), chosen, state, now_s)
        assert_timers_go_on(now_s, before, found)
        if found.result != "ERROR" and "maxEvaluatedNodes" not in chosen:
            assert_nothing_flaps(world, chosen, found, now_s)
        world.live(found)
        states.append((found.state, since(found)))


def worth(world: ShrinkingCluster, found: Outcome) -> float:
    """Return the cost of a plan's nodes per hour."""
    return sum(world.prices[world.nodes[name]] for name in found.unneeded)


@given(seed=st.integers(0, 2**32))
@example(seed=1003687533)
@examples(6, 1)
def test_prices_that_move_change_a_plan_only_for_one_that_is_better_by_the_margin(seed: int) -> None:
    """Compares with loops that never leave the last plan: the same nodes, or more, or worth 5 % more."""
    world = ShrinkingCluster(Random(seed))
    state: plan_pb2.ScaleDownState | None = None
    for loop in range(LOOPS):
        world.loop = loop
        now_s = NOW_S + STEP_S * loop
        if world.random.random() < 0.3:
            world.prices[world.random.choice("ab")] = world.random.choice((0.1, 0.5, 1.0, 3.0))
        found = plan_message(world.message(), SETTINGS, state, now_s)
        with patch.object(portfolio, "STABILITY_MARGIN", 1e9):
            faithful = plan_message(world.message(), SETTINGS, state, now_s)
        if state is not None and state.unneeded.node and found.unneeded != faithful.unneeded:
            more_nodes = len(found.unneeded) > 1.05 * len(faithful.unneeded)
            assert more_nodes or worth(world, found) > 1.05 * worth(world, faithful) - 1e-9
        if found.result != "ERROR":
            assert_nothing_flaps(world, SETTINGS, found, now_s)
        world.live(found)
        state = found.state


def test_a_steady_plan_is_compared_again_when_prices_change() -> None:
    """n1 or n2 can go, not both; the plan follows the price only if the difference exceeds the margin."""

    def at(price: float) -> snapshot_pb2.ClusterSnapshot:
        web = replica_set("web", 9)
        return snapshot_of([
            web, node("n1"), node("n2"), node_group("a", nodes=["n1"], price=1.0),
            node_group("b", nodes=["n2"], price=price),
            pod("p1", "1900m", node="n1", owner=web), pod("p2", "1900m", node="n2", owner=web),
            pod("p3", "100m", node="n2", owner=web),
        ])  # fmt: skip

    first = plan_message(at(1.0))
    assert first.unneeded == ["n1"]
    steady = plan_message(at(1.0), state=first.state, now_s=NOW_S + 10)
    assert (steady.unneeded, steady.counts["plans_tried"], steady.counts["searched_places"]) == (["n1"], 1, 0)
    dearer = plan_message(at(1.04), state=steady.state, now_s=NOW_S + 20)
    assert dearer.unneeded == ["n1"], "four percent are not worth the timers"
    assert dearer.counts["plans_tried"] > 1
    assert plan_message(at(1.04), state=dearer.state, now_s=NOW_S + 30).counts["plans_tried"] == 1
    assert plan_message(at(3.0), state=dearer.state, now_s=NOW_S + 30).unneeded == ["n2"]


@pytest.mark.nightly
def test_such_clusters_do_shrink_and_do_fail() -> None:
    """The loops above would prove little if nothing happened in them."""
    results: set[str] = set()
    reasons: set[str] = set()
    drained = 0
    for seed in range(12):
        world = ShrinkingCluster(Random(seed))
        state, chosen = None, some_settings(world.random) | (even(1) if seed % 2 else {})
        for loop in range(LOOPS):
            world.loop = loop
            move_budgets(world)
            found = plan_message(world.message(), chosen, state, NOW_S + STEP_S * loop)
            results.add(found.result)
            reasons |= set(found.reasons.values()) | set(found.not_now.values())
            drained += len(found.decision.drain)
            world.live(found)
            state = found.state
    assert drained > 30
    assert {"NODE_DELETE_STARTED", "NO_NODE_DELETED", "IN_PROGRESS", "IN_COOLDOWN"} <= results
    assert {"BALANCE", "IN_COOLDOWN", "NOT_UNREADY_LONG_ENOUGH", "CURRENTLY_BEING_DELETED", "NOT_EVALUATED"} <= reasons
