"""Planner, actuator and reference loop over one node group of a real control plane; the actuator can be killed."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.actuator_process import QUICK
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.loop_processes import planner_at, process
from tests.e2e.restarted import RestartedProcess

Json = dict[str, Any]
SETTINGS = {"scaleDown": {"unneededTime": "2s", "delayAfterAdd": "1s"}}


@contextmanager
def looping(plane: ControlPlane, folder: Path, group: Json) -> Iterator[RestartedProcess]:
    """Run planner, actuator and loop over a group; yield the actuator."""
    groups, settings = folder / "groups.json", folder / "settings.json"
    groups.write_text(json.dumps(group))
    settings.write_text(json.dumps(SETTINGS))
    planner, address, health = (f"127.0.0.1:{port}" for port in free_ports(3))
    options = ("--address", address, "--state-dir", folder / "state", "--cloud-config", groups, *QUICK)
    access = ("--kubeconfig", plane.kubeconfig("admin"))
    with (
        RestartedProcess("trimtab.actuator", (*options, *access), folder / "actuator.log") as actuator,
        planner_at(planner, folder),
        process(
            "trimtab.clients.cli", "run", "--planner", planner, "--actuator", address, "--node-groups", groups,
            "--settings", settings, "--interval", 0.5, "--health-address", health, *access, log=folder / "loop.log",
        ) as loop,
    ):  # fmt: skip
        yield actuator
        loop.send_signal(signal.SIGTERM)
        assert loop.wait(60) == 0, (folder / "loop.log").read_text()[-3000:]


def tainted(nodes: list[Json]) -> list[str]:
    """Return the names of the nodes that are about to go."""
    return [
        one["metadata"]["name"]
        for one in nodes
        if any(taint["key"] == "ToBeDeletedByClusterAutoscaler" for taint in one["spec"].get("taints", ()))
    ]
