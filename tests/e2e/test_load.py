"""`trimtab admin load` as a process on a real control plane, without slack and with it: the steps of docs/jobs.md."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import workloads
from tests.e2e.actuator_process import all_ready, apply, until
from tests.e2e.control_plane.control_plane import ControlPlane
from tests.e2e.rounds_over_plane import Rounds, rounds_over
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.v1 import plan_pb2, reason_pb2

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
POOL = "load"
SLOW_S = 120.0
PODS = 4
DECISIONS = (plan_pb2.Decision.SLACK, plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)


def settings(rate: float) -> plan_pb2.PlanSettings:
    made = plan_pb2.PlanSettings()
    made.slack.extra_capacity_min_rate = rate
    # Longer than a node takes to start, even on a busy machine.
    made.scale_down.unneeded_time.seconds = 15
    made.scale_down.delay_after_add.SetInParent()
    made.scale_down.unremovable_node_recheck_timeout.SetInParent()
    return made


def node_count(plane: ControlPlane) -> int:
    return len(plane.kubectl("get", "nodes", "-l", f"pool={POOL}", "-o", "name").split())


def loaded(plane: ControlPlane, rounds: Rounds) -> Json:
    """Run the load while the loop runs; return the report on its burst once the loop has no work."""
    command = [
        *(sys.executable, "-m", "trimtab.clients.cli", "admin", "load", "--kubeconfig", str(plane.kubeconfig("admin"))),
        *("--bursts", "1", "--deployments", "2", "--replicas", "2", "--cpu", "900m", "--memory", "64Mi"),
        *("--length", "25s", "--quiet", "5s", "--node-selector", f"pool={POOL}", "-o", "json"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            rounds.run()
            time.sleep(0.2)
        assert process.stdout is not None
        document = json.loads(process.stdout.read())
    assert process.returncode == 0
    (burst,) = document["bursts"]
    assert (burst["pods"], burst["scheduled"]) == (PODS, PODS)
    assert burst["nodesMost"] > burst["nodesBefore"]
    return dict(burst)


def shrinks_to(plane: ControlPlane, rounds: Rounds, most: int) -> None:
    """Wait until there are no more nodes than so many."""
    until(lambda: bool(rounds.run()) and node_count(plane) <= most, SLOW_S, f"{most} nodes again")
    until(lambda: not plane.kubectl("get", "ns", "trimtab-load", "--ignore-not-found"), SLOW_S, "nothing stays behind")


def test_the_cluster_grows_holds_slack_and_shrinks(plane: ControlPlane, tmp_path: Path) -> None:
    # Four pods of 900m fill a node.
    apply(plane, *workloads.nodes(POOL, 1, pool=POOL), workloads.deployment("web", PODS, "900m", POOL))
    until(lambda: all_ready(plane), SLOW_S, "pods ready")
    groups = [workloads.group(POOL, 8, POOL)]
    with rounds_over(plane, tmp_path / "without", RoundSettings("e2e", DECISIONS, settings(0.0)), groups) as rounds:
        without = loaded(plane, rounds)
        assert without["nodesBefore"] == 1
        shrinks_to(plane, rounds, 1)
    with rounds_over(plane, tmp_path / "with", RoundSettings("e2e", DECISIONS, settings(0.4)), groups) as rounds:
        until(is_there(rounds), SLOW_S, "slack is there before any pod asks for it")
        before = node_count(plane)
        held = loaded(plane, rounds)
        print("without slack:", without, "with:", held)
        assert held["nodesBefore"] == before > without["nodesBefore"]
        assert held["nodesMost"] > before + 1
        # Slack is a share of the nodes that are there: all that came for the load and its slack go again.
        shrinks_to(plane, rounds, before)
        until(is_there(rounds), SLOW_S, "slack is kept")
    assert all_ready(plane)


def is_there(rounds: Rounds) -> Any:
    return lambda: rounds.run().answer.slack.result == reason_pb2.SlackResult.SLACK_PRESENT
