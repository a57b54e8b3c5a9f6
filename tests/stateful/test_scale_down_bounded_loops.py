"""Loops with time for only a few nodes each, on a changing cluster: every node is evaluated in turn."""

from collections import Counter
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, node_group, pod, replica_set
from tests.builders.scale_down import NOW_S, Outcome, plan, plan_message
from tests.builders.scale_down_loops import LOOPS, SETTINGS, STEP_S, ShrinkingCluster
from trimtab.planner.scale_down.search import drain_sets
from trimtab.v1 import plan_pb2
from trimtab.v1.opaque_state_pb2 import OpaqueState

# Results of failed simulations expire quickly, so the same nodes must be evaluated again and again.
FORGETFUL: Json = SETTINGS | {"unremovableNodeRecheckTimeout": "1s", "utilizationThreshold": 1.0}
BOUNDS: dict[str, tuple[Json, int, bool]] = {
    "one node a loop": ({"maxEvaluatedNodes": 1}, 1, True),
    "three nodes a loop": ({"maxEvaluatedNodes": 3}, 3, True),
    "no time at all": ({}, 1, False),
    "no time at all, two nodes all the same": ({}, 2, False),
}


def decided(world: ShrinkingCluster, bound: str, state: plan_pb2.ScaleDownState | None) -> Outcome:
    chosen, least, has_time = BOUNDS[bound]
    now_s = NOW_S + STEP_S * world.loop
    with patch.object(drain_sets, "LEAST_EVALUATED", least):
        return plan_message(
            world.message(), FORGETFUL | chosen, state, now_s, time_left=None if has_time else (lambda: False)
        )


SAMPLE = ("three nodes a loop",)


@pytest.mark.ci
@pytest.mark.parametrize(
    "bound", [*SAMPLE, *(pytest.param(one, marks=pytest.mark.nightly) for one in BOUNDS if one not in SAMPLE)]
)
@given(seed=st.integers(0, 2**32))
@examples(20, 2)
def test_no_node_waits_longer_than_the_queue_before_it(bound: str, seed: int) -> None:
    world = ShrinkingCluster(Random(seed))
    state: plan_pb2.ScaleDownState | None = None
    waiting: Counter[str] = Counter()
    most_nodes = 0
    for loop in range(LOOPS):
        world.loop = loop
        found = decided(world, bound, state)
        assert decided(world, bound, state).decision == found.decision, "a bounded loop can be repeated"
        left = {name for name, reason in found.reasons.items() if reason == "NOT_EVALUATED"}
        if found.result == "ERROR":
            left = set()
        waiting = Counter({name: waiting[name] + 1 for name in left})
        most_nodes = max(most_nodes, len(world.nodes))
        # Each node before it in line is evaluated once; one more for nodes added meanwhile and for rounding.
        assert max(waiting.values(), default=0) <= most_nodes // BOUNDS[bound][1] + 2
        assert found.decision.not_evaluated == len(left) or found.result == "ERROR"
        world.live(found)
        state = found.state


def full(count: int) -> list[Json]:
    """Return nodes that cannot go and differ only in their names."""
    web = replica_set("web", 99)
    names = [f"n{i:02}" for i in range(count)]
    return [
        web, *(node(name) for name in names), node_group("g", nodes=names, max_size=99),
        *(pod(f"p-{name}", "2100m", node=name, owner=web) for name in names),
    ]  # fmt: skip


def test_every_node_is_evaluated_once_before_any_is_evaluated_again() -> None:
    chosen = FORGETFUL | {"maxEvaluatedNodes": 3}
    objects, state = full(12), None
    looked_at: list[set[str]] = []
    for loop in range(8):
        found = plan(objects, settings=chosen, state=state, now_s=NOW_S + STEP_S * loop)
        looked_at.append({name for name, reason in found.reasons.items() if reason == "NO_PLACE_TO_MOVE_PODS"})
        state = found.state
    assert [len(one) for one in looked_at] == [3] * 8
    assert set().union(*looked_at[:4]) == set().union(*looked_at[4:]) == {f"n{i:02}" for i in range(12)}


def test_the_queue_is_kept_when_the_node_at_its_head_is_gone() -> None:
    """If the node where the last loop stopped is gone, the next loop continues with nodes that were never evaluated."""
    chosen = FORGETFUL | {"maxEvaluatedNodes": 2}
    objects, state = full(11), None
    looked_at: set[str] = set()
    for loop in range(4):
        found = plan(objects, settings=chosen, state=state, now_s=NOW_S + STEP_S * loop)
        now = {name for name, reason in found.reasons.items() if reason == "NO_PLACE_TO_MOVE_PODS"}
        assert not now & looked_at, "nobody twice while others wait"
        looked_at |= now
        state = found.state
        head = state.strings[OpaqueState.FromString(state.opaque).resume_at]
        objects = [one for one in objects if one["metadata"]["name"] not in {head, f"p-{head}"}]
        for one in objects:
            if one["kind"] == "NodeGroup":
                one["spec"]["nodes"] = [name for name in one["spec"]["nodes"] if name != head]
    assert looked_at == {f"n{i:02}" for i in (0, 1, 3, 4, 6, 7, 9, 10)}
