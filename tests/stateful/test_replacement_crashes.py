"""The actuator dies at every store write and every call to cluster and cloud of a replacement, restarts, and the
replacement still ends correctly: nothing is ordered, evicted, given back or deleted twice, and no taint is left.

In the suite it dies at some of them, in the nightly tier (`TRIMTAB_ALL_DEATHS=1`) at each.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders.actuator import Crash, Stage
from tests.builders.kubernetes import pod
from tests.builders.replacements import (
    BIG,
    leaving,
    new_nodes,
    nodes_of,
    replacement_request,
    result,
    soft_tainted,
    started,
    wasteful_cluster,
)
from tests.builders.tiers import ALL_DEATHS
from trimtab.actuator.cloud.provider import CloudRefusedError
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.clients.simulation.cluster.pods import SimulatedPod
from trimtab.v1 import actuator_pb2

Request = actuator_pb2.StartReplacementRequest
STRIDE = 1 if ALL_DEATHS else 11


def live(stage: Stage, request: Request, moments: list[int], go_on: Callable[[Stage], None] = Stage.run) -> int:
    """Start a replacement and die at the given point of each life; return the points of the last life."""
    for moment in moments:
        try:
            stage.boot(die_at=moment)
            assert started(stage, request)[0]
            go_on(stage)
        except Crash:
            continue
        break
    stage.boot()
    assert started(stage, request)[0]
    go_on(stage)
    return stage.breaker.count


def check_nothing_twice(stage: Stage) -> None:
    """Check what holds however the replacement ends."""
    deleted = stage.noted("deleted")
    assert len(deleted) == len(set(deleted))
    assert stage.noted("evicted_twice") == []
    assert stage.noted("pod_lost") == []
    assert stage.violations == []
    assert stage.tainted() == set()
    assert soft_tainted(stage) == set()
    assert stage.active_pods("web") == 6
    assert not stage.status().deletions
    for group in ("big", "small", "spare", "dear"):
        assert stage.target(group) == len(nodes_of(stage, group))
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def check_replaced(stage: Stage) -> None:
    check_nothing_twice(stage)
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert leaving(stage) == dict.fromkeys(BIG, "GONE")
    assert [len(nodes_of(stage, group)) for group in ("big", "small", "spare")] == [0, 2, 0]
    assert sorted(stage.noted("grown")) == ["small 2"]
    assert len(stage.noted("evicted")) == len(set(stage.noted("evicted"))) == 6


def small_is_out_of_stock(stage: Stage) -> None:
    stage.cluster.faults.add(Fault("set_size", "small", CloudRefusedError("no capacity"), times=100))


def check_rolled_back(stage: Stage) -> None:
    check_nothing_twice(stage)
    assert result(stage) == ("FAILED", "NEW_NODES_MISSING")
    assert leaving(stage) == dict.fromkeys(BIG, "STAYS")
    assert [len(nodes_of(stage, group)) for group in ("big", "small", "spare")] == [3, 0, 0]
    assert stage.noted("evicted") == []


def check_by_alternative(stage: Stage) -> None:
    check_nothing_twice(stage)
    assert result(stage) == ("DONE", "UNSPECIFIED")
    assert new_nodes(stage) == {"small#0": ("spare", "READY"), "small#1": ("spare", "READY")}
    assert [len(nodes_of(stage, group)) for group in ("big", "small", "spare")] == [0, 0, 2]
    assert stage.noted("grown") == ["spare 2"]


def a_pod_arrives_on_the_last_node(stage: Stage) -> None:
    """Let a pod arrive while the new nodes start, unless it is there already."""
    with stage.looking(), stage.cluster.transaction() as state:
        if ("default", "late") not in {one.key for one in state.pods.values()}:
            state.put_pod(SimulatedPod(pod("late", node="big-2", cpu="100m")))


def run_with_a_late_pod(stage: Stage) -> None:
    stage.run_for(1.0)
    a_pod_arrives_on_the_last_node(stage)
    stage.run()


def check_partly(stage: Stage) -> None:
    check_nothing_twice(stage)
    assert result(stage) == ("DONE", "LEAVING_NODES_STAY")
    assert leaving(stage) == {"big-0": "GONE", "big-1": "GONE", "big-2": "STAYS"}
    assert nodes_of(stage, "big") == ["big-2"]


CASES: dict[str, tuple[dict[str, Any], Callable[[Stage], None], Callable[[Stage], None], Callable[[Stage], None]]] = {
    "all goes well": ({}, lambda _stage: None, Stage.run, check_replaced),
    "out of stock": ({}, small_is_out_of_stock, Stage.run, check_rolled_back),
    "an alternative": ({"alternatives": ("spare",)}, small_is_out_of_stock, Stage.run, check_by_alternative),
    "a pod arrives": ({}, lambda _stage: None, run_with_a_late_pod, check_partly),
}


def life(case: str, moments: list[int]) -> tuple[Stage, int]:
    more, prepare, go_on, _ = CASES[case]
    stage = Stage(wasteful_cluster())
    request = replacement_request(stage, **more)
    prepare(stage)
    count = live(stage, request, moments, go_on)
    return stage, count


@pytest.mark.parametrize("case", CASES)
def test_dying_once_at_any_point_loses_nothing_and_does_nothing_twice(case: str) -> None:
    stage, count = life(case, [])
    CASES[case][3](stage)
    assert count > 40
    for moment in range(1, count + 1, STRIDE):
        stage, _ = life(case, [moment])
        try:
            CASES[case][3](stage)
        except AssertionError as error:
            raise AssertionError(f"died at moment {moment}") from error


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 6))])
def test_dying_repeatedly_loses_nothing_and_does_nothing_twice(seed: int) -> None:
    chance = random.Random(seed)
    for number in range(12):
        case = sorted(CASES)[number % len(CASES)]
        moments = [chance.randint(1, 150) for _ in range(chance.randint(2, 6))]
        stage, _ = life(case, moments)
        try:
            CASES[case][3](stage)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {case}: died at moments {moments}") from error


def test_a_cancelled_replacement_is_rolled_back_whenever_the_process_dies() -> None:
    def cancelled_life(moment: int | None) -> Stage:
        stage = Stage(wasteful_cluster())
        request = replacement_request(stage)
        lives = 0
        while True:
            try:
                stage.boot(moment if lives == 0 else None)
                assert started(stage, request)[0]
                stage.run_for(2.0)
                order = actuator_pb2.CancelReplacementRequest(request_ids=["w1"])
                assert stage.actuator.replacements.cancel(order) == (["w1"], [])
                stage.run()
                return stage
            except Crash:
                lives += 1

    count = cancelled_life(None).breaker.count
    for moment in range(1, count + 1, STRIDE):
        stage = cancelled_life(moment)
        check_nothing_twice(stage)
        assert result(stage) == ("CANCELLED", "REPLACEMENT_CANCELLED"), f"moment {moment}"
        assert [len(nodes_of(stage, group)) for group in ("big", "small")] == [3, 0], f"moment {moment}"
