"""Cost, moves and time of Karpenter alone and with our planner, on the same cluster of a real control plane.

Usage: python -m tests.e2e.karpenter.measure [--nodes 100] [--shape wrong-family] [--seconds 200] [--alone]
Prints one JSON object: the price of an hour and the pods moved so far every 20 s, what all nodes cost over the whole
time, seconds until 90 % of the saving at the end, pods moved in all, the most nodes that left at the same time, the
fewest healthy pods of each Deployment, and the commands by kind. All flags of Karpenter and of the method are at their
defaults: 10 % of the nodes may leave at a time, a command is validated for 15 s.
"""

import json
import sys
import tempfile
import time
from bisect import bisect_right
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries, free_ports
from tests.e2e.karpenter import wrong_sizes
from tests.e2e.karpenter.history import history_of, moved_after
from tests.e2e.karpenter.karpenter_process import install_kinds, karpenter
from tests.e2e.loop_processes import planner_at
from tests.e2e.watch_log import WatchLog


def measure(folder: Path, node_count: int, shape: str, seconds: float, alone: bool) -> dict[str, Any]:
    """Return what happened."""
    with ExitStack() as parts:
        flags = []
        if not alone:
            address = f"127.0.0.1:{free_ports(1)[0]}"
            parts.enter_context(planner_at(address, folder))
            flags.append(f"--trimtab-address={address}")
        plane = parts.enter_context(ControlPlane(cached_binaries(), folder / "state"))
        install_kinds(plane)
        running = parts.enter_context(karpenter(plane, folder, *flags))
        apps = wrong_sizes.fill(plane, node_count, wrong_sizes.SHAPES[shape])
        log = parts.enter_context(WatchLog(plane, folder))
        wrong_sizes.open_budget(plane)
        began = time.time()
        seen = wrong_sizes.watch_until_settled(plane, seconds, 90)
        changes = log.changes()
        history, moved = history_of(changes, [app.name for app in apps]), moved_after(changes, began)
        every = [one for one in seen if one is seen[-1] or one[0] // 20 > (one[0] - 2.5) // 20]
        return {
            "alone": alone,
            "nodes": [node_count, seen[-1][2]],
            "price": [round(seen[0][1], 3), round(seen[-1][1], 3)],
            "seconds": round(seen[-1][0]),
            "cost": round(wrong_sizes.cost_over(seen, seconds), 3),
            "most_saved_after_s": round(wrong_sizes.most_saved_after(seen)),
            "after_s": {str(round(one[0])): [round(one[1], 2), bisect_right(moved, one[0])] for one in every},
            "moved": history.moved,
            "most_leaving": history.most_leaving,
            "healthy": {app.name: [history.lowest[app.name], app.least_healthy, app.replicas] for app in apps},
            "running": [wrong_sizes.running_pods(plane), sum(app.replicas for app in apps)],
            "types": dict(wrong_sizes.sizes(wrong_sizes.listed(plane, "nodes"))),
            "commands": {
                f"{one.name}{one.labels or ''}": one.value
                for one in running.samples()
                if one.name.startswith(("karpenter_voluntary_disruption_decisions_total", "trimtab_"))
                and "bucket" not in one.name
            },
        }


def main(
    nodes: Annotated[int, typer.Option()] = 100,
    shape: Annotated[str, typer.Option(help=", ".join(wrong_sizes.SHAPES))] = "wrong-family",
    seconds: Annotated[float, typer.Option()] = 200,
    alone: Annotated[bool, typer.Option("--alone")] = False,
) -> None:
    """Measure once."""
    with tempfile.TemporaryDirectory() as folder:
        json.dump(measure(Path(folder), nodes, shape, seconds, alone), sys.stdout)
        print(flush=True)


if __name__ == "__main__":
    typer.run(main)
