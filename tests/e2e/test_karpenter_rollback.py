"""Karpenter with our disruption method on a real control plane: a command of several new nodes of which one never comes
is taken back. Its other new nodes are removed, and no old node leaves by it.
"""

from pathlib import Path

import pytest

from tests.e2e.actuator_process import until
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.karpenter import wrong_sizes
from tests.e2e.karpenter.karpenter_process import install_kinds, karpenter
from tests.e2e.loop_processes import planner_at

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
NODES, SLOW_S = 6, 240.0
DELAY = '{"spec":{"nodeRegistrationDelay":"60s"}}'
COMMAND = "trimtab.dev/command"


def new_claims(plane: ControlPlane) -> list[str]:
    """Return the names of NodeClaims of commands that are not being deleted."""
    claims = [one["metadata"] for one in wrong_sizes.listed(plane, "nodeclaims")]
    return [one["name"] for one in claims if COMMAND in one.get("annotations", {}) and "deletionTimestamp" not in one]


@pytest.mark.timeout(900)
def test_new_nodes_of_a_command_of_which_one_never_comes_are_removed_again(plane: ControlPlane, tmp_path: Path) -> None:
    install_kinds(plane)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    flags = (f"--trimtab-address={address}", "--trimtab-validation-delay=1s")
    with planner_at(address, tmp_path), karpenter(plane, tmp_path, *flags) as running:
        apps = wrong_sizes.fill(plane, NODES, wrong_sizes.ONE_A_NODE)
        before = {one["metadata"]["name"] for one in wrong_sizes.listed(plane, "nodes")}
        plane.kubectl("patch", "kwoknodeclass", "default", "--type=merge", "-p", DELAY)
        wrong_sizes.open_budget(plane, "6")
        until(lambda: len(new_claims(plane)) > 1, SLOW_S, "a command with several new nodes")
        wrong_sizes.open_budget(plane, "0")
        plane.kubectl("delete", "nodeclaim", new_claims(plane)[0], "--wait=false")
        until(lambda: not new_claims(plane), SLOW_S, "its other new nodes are removed")
        assert running.count("trimtab_karpenter_rolled_back_nodes_total") > 0
        assert running.count("trimtab_karpenter_commands_total", state="failed") == 1
        assert any(line["message"].startswith("removed a new node of a failed command") for line in running.lines())
        assert {one["metadata"]["name"] for one in wrong_sizes.listed(plane, "nodes")} >= before
        assert wrong_sizes.running_pods(plane) == sum(app.replicas for app in apps)
