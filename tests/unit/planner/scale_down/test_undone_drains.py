"""Pauses after drains that slack undoes."""

from dataclasses import replace

import pytest

from tests.builders.slack import NOW_S, cluster, decide, pod, spec, where
from trimtab.clients.verdicts import going
from trimtab.planner.model.values import Owner
from trimtab.planner.scale_down.state import (
    Slack,
    UndoneDrains,
    drained,
    judged,
    read_undone_drains,
    write_undone_drains,
)
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import UnremovableReason

MINUTE = 60 * 10**9
NOW = 1_800_000_000 * 10**9
DRAINED = UndoneDrains(NOW - MINUTE, 100)
FINE, LACKING = Slack(False, False, 100), Slack(True, False, 100)


@pytest.mark.parametrize(
    ("before", "slack", "after"),
    [
        pytest.param(UndoneDrains(), LACKING, UndoneDrains(), id="nothing was drained"),
        pytest.param(DRAINED, FINE, DRAINED, id="slack is there, and it may be too early to tell"),
        pytest.param(DRAINED, LACKING, UndoneDrains(0, 0, 1, NOW + 10 * MINUTE), id="slack lacks after it"),
        pytest.param(DRAINED, Slack(True, False, 101), UndoneDrains(), id="slack lacks for a pod that has come"),
        pytest.param(
            DRAINED._replace(times=2), Slack(True, False, 101), UndoneDrains(times=2), id="what is known stays known"
        ),
        pytest.param(DRAINED._replace(times=1), LACKING, UndoneDrains(0, 0, 2, NOW + 20 * MINUTE), id="twice in a row"),
        pytest.param(
            DRAINED._replace(times=29), LACKING, UndoneDrains(0, 0, 30, NOW + 24 * 60 * MINUTE), id="a day at most"
        ),
        pytest.param(UndoneDrains(NOW - 10 * MINUTE, 100, 3), FINE, UndoneDrains(), id="slack has outlasted it"),
        pytest.param(
            UndoneDrains(NOW - 10 * MINUTE, 100, 3),
            Slack(False, True, 100),
            UndoneDrains(NOW - 10 * MINUTE, 100, 3),
            id="nodes are still being deleted",
        ),
        pytest.param(
            UndoneDrains(0, 0, 3, NOW - MINUTE), FINE, UndoneDrains(0, 0, 3, NOW - MINUTE), id="no drain since"
        ),
    ],
)
def test_what_came_of_a_drain_is_judged_by_slack(before: UndoneDrains, slack: Slack, after: UndoneDrains) -> None:
    assert judged(before, slack, NOW) == after


def test_a_drain_is_awaited_only_where_slack_was_there() -> None:
    assert drained(UndoneDrains(times=2), Slack(False, True, 7), NOW) == UndoneDrains(NOW, 7, 2)
    assert drained(UndoneDrains(times=2), LACKING, NOW) == UndoneDrains(times=2)


@pytest.mark.parametrize("kept", [UndoneDrains(), DRAINED, UndoneDrains(0, 0, 3, NOW + MINUTE), UndoneDrains(times=1)])
def test_the_state_is_read_as_it_was_written(kept: UndoneDrains) -> None:
    state = pb.ScaleDownState()
    write_undone_drains(kept, state)
    assert state.HasField("undone_drains") == (kept != UndoneDrains())
    assert read_undone_drains(state.undone_drains, NOW) == kept


def test_times_that_cannot_be_count_as_those_that_can() -> None:
    state = pb.UndoneDrains(pod_count=-1, times=2**31 - 1)
    state.drain_time.seconds, state.until_time.seconds = 2**62, 2**62
    assert read_undone_drains(state, NOW) == UndoneDrains(NOW, 0, 30, NOW + 24 * 60 * MINUTE)
    state.drain_time.seconds, state.until_time.seconds = -(2**62), -(2**62)
    assert read_undone_drains(state, NOW) == UndoneDrains(0, 0, 30, 0)


ASKED = {
    "slack": {"extraCapacityMinRate": 0.2, "granularity": 1},
    "scaleDown": {"unneededTime": "0s", "maxDrainParallelism": 100},
}
BOTH = ("SLACK", "SCALE_DOWN")
OWNER = Owner("rs", "ReplicaSet", "web", "default", 99, 99, "apps/v1")


def test_while_drains_wait_nodes_without_pods_still_go() -> None:
    given = cluster(5)
    pods = {("default", f"p{i}"): pod(f"p{i}", f"n0{i}", spec(500), owner="rs") for i in range(2)}
    given = replace(given, pods=pods, owners={"rs": OWNER})
    free = decide(given, ASKED, decisions=BOTH)
    assert free.scale_down.drain
    assert all(where(free).values())
    state = pb.PlanState()
    state.CopyFrom(free.state)
    state.scale_down.undone_drains.times = 1
    state.scale_down.undone_drains.until_time.seconds = NOW_S + 300
    answer = decide(given, ASKED, state, NOW_S + 30, BOTH)
    held = answer.scale_down
    assert not held.drain
    assert held.delete_empty
    assert held.delete_empty == free.scale_down.delete_empty
    assert {one.node: (one.reason, one.detail) for one in going(answer) if one.reason} == {
        node: (
            UnremovableReason.NEEDED_FOR_SLACK,
            "drains wait 270 s more: pods of the last drain took room that slack keeps",
        )
        for node in free.scale_down.drain
    }
    # If slack is no longer requested, nothing waits for it.
    assert decide(given, {"scaleDown": ASKED["scaleDown"]}, state, NOW_S + 30, BOTH).scale_down.drain
