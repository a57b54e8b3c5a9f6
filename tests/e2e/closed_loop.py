"""Planner, actuator and `trimtab run` as processes over one control plane."""

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.actuator_process import QUICK, listed
from tests.e2e.control_plane.control_plane import ControlPlane, free_ports
from tests.e2e.loop_processes import planner_at, process
from tests.e2e.restarted import RestartedProcess
from tests.e2e.watch_log import HARD_TAINT

Json = dict[str, Any]


class Part(NamedTuple):
    """What a process is started with: the user of the control plane that it is, and options."""

    user: str = "admin"
    options: Sequence[str] = ()


ADMIN = Part()


@contextmanager
def closed_loop(
    plane: ControlPlane,
    folder: Path,
    groups: Sequence[Json],
    scale_down: Json,
    *,
    acts: Part = ADMIN,
    loops: Part = ADMIN,
    interval_s: float = 0.5,
) -> Iterator[RestartedProcess]:
    """Run the three over node groups; yield the actuator, which may be killed. At the end the loop is told to stop and
    must do so without an error. scale_down : settings.
    """
    config, settings = folder / "groups.json", folder / "settings.json"
    config.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(groups)}))
    settings.write_text(json.dumps({"scaleDown": scale_down}))
    planner, address, health = (f"127.0.0.1:{port}" for port in free_ports(3))
    actuator_options = (
        "--address", address, "--state-dir", folder / "state", "--cloud-config", config, *QUICK,
        "--kubeconfig", plane.kubeconfig(acts.user), *acts.options,
    )  # fmt: skip
    loop_options = (
        "--planner", planner, "--actuator", address, "--node-groups", config, "--settings", settings,
        "--interval", interval_s, "--health-address", health,
        "--kubeconfig", plane.kubeconfig(loops.user), *loops.options,
    )  # fmt: skip
    with (
        RestartedProcess("trimtab.actuator", actuator_options, folder / "actuator.log") as actuator,
        planner_at(planner, folder),
        process("trimtab.clients.cli", "run", *loop_options, log=folder / "loop.log") as loop,
    ):
        yield actuator
        loop.send_signal(signal.SIGTERM)
        assert loop.wait(60) == 0, (folder / "loop.log").read_text()[-3000:]


def tainted(plane: ControlPlane) -> list[str]:
    """Return the nodes that are about to go."""
    return [
        one["metadata"]["name"]
        for one in listed(plane, "nodes")
        if any(taint["key"] == HARD_TAINT for taint in one["spec"].get("taints", ()))
    ]
