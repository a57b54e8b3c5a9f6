"""Slack for gangs on a real control plane: room for another gang is built up, a gang starts on it without any plan, and
the room is built up again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import pod_group_objects as gangs
from tests.e2e import workloads
from tests.e2e.actuator_process import apply, listed, until
from tests.e2e.control_plane.control_plane import GANG_GATES, SERVED, ControlPlane, cached_binaries
from tests.e2e.rounds_over_plane import rounds_over
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.v1 import plan_pb2, reason_pb2

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
Json = dict[str, Any]
Result = reason_pb2.SlackResult
DECISIONS = (plan_pb2.Decision.SLACK, plan_pb2.Decision.SCALE_UP)
SLOW_S = 120.0
POOL, SIZE = "gangs", 4
CPU = "3600m"
"""One such pod fills a node of 4 CPUs, so that a gang has nodes of its own."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    with ControlPlane(cached_binaries(), state, feature_gates=GANG_GATES, served=SERVED) as started:
        yield started


def gang(name: str, slack: str = "") -> list[Json]:
    """Return a PodGroup and its pods. slack : for how many more gangs like it room is requested, "" = none."""
    group = gangs.pod_group(name, SIZE)
    if slack:
        group["metadata"]["annotations"] = {"trimtab.dev/slack": slack}
    pods = [workloads.bare_pod(f"{name}-{number}", CPU, POOL) for number in range(SIZE)]
    for one in pods:
        one["metadata"]["labels"] = {"gang": name}
        one["spec"]["schedulingGroup"] = {"podGroupName": name}
    return [group, *pods]


def nodes_of(plane: ControlPlane, name: str) -> set[str]:
    """Return the nodes of a gang; empty if some of its pods have none."""
    pods = [one for one in listed(plane, "pods") if one["metadata"].get("labels", {}).get("gang") == name]
    found = {one["spec"].get("nodeName", "") for one in pods}
    return found if len(pods) == SIZE and "" not in found else set()


def nodes(plane: ControlPlane) -> set[str]:
    return {one["metadata"]["name"] for one in listed(plane, "nodes")}


def test_a_gang_starts_on_the_room_that_is_kept_for_it_and_the_room_is_built_up_again(
    plane: ControlPlane, tmp_path: Path
) -> None:
    asked = RoundSettings("e2e", DECISIONS, plan_pb2.PlanSettings())
    apply(plane, *gang("first", slack="1"))
    with rounds_over(plane, tmp_path / "actuator", asked, [workloads.group(POOL, 3 * SIZE, POOL)]) as rounds:
        found = rounds.until_slack(Result.SLACK_PRESENT).answer.slack.objects[0]
        assert (found.object, found.present_gang_count) == ("PodGroup/default/first", 1)
        until(lambda: nodes_of(plane, "first"), SLOW_S, "the first gang runs")
        before, first = nodes(plane), nodes_of(plane, "first")
        assert (len(before), len(first)) == (2 * SIZE, SIZE)

        apply(plane, *gang("second"))
        # No round is made: the scheduler alone binds the gang to the room of slack.
        until(lambda: nodes_of(plane, "second"), SLOW_S, "the second gang runs")
        assert nodes(plane) == before
        assert nodes_of(plane, "second") == before - first

        rounds.until_slack(Result.SLACK_LACKING)
        rounds.until_slack(Result.SLACK_PRESENT)
        grown = nodes(plane)
        assert (len(grown), before < grown) == (3 * SIZE, True)

        # The third gang fills all nodes that the group may have: there is no room for a fourth, and none is begun.
        apply(plane, *gang("third"))
        until(lambda: nodes_of(plane, "third"), SLOW_S, "the third gang runs")
        assert nodes_of(plane, "third") == grown - before
        answer = rounds.until_slack(Result.SLACK_LACKING).answer
        (waiting,) = answer.scale_up.waiting_placeholders
        assert "gangs would help and is at the maximum size" in waiting.detail
        rounds.run()
        assert nodes(plane) == grown
