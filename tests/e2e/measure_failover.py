"""Duration of a failover: two actuators share one PostgreSQL; during a drain the leader is killed or stopped.

Counted from the signal: until the other one leads, and until it has evicted a pod. The Lease's times are the actuator's
defaults unless given. Prints one JSON object a line.
"""

import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from tests.builders.postgresql import missing, running_postgresql
from tests.e2e.actuator_process import Json, deletion_of, kill, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.stages import write_stages
from tests.e2e.two_actuators import fill, leads, start, to_drain
from trimtab.clients.actuator_client import ActuatorClient

LIMIT_S = 120


def evicted(client: ActuatorClient) -> int:
    """How many pods the store knows as evicted."""
    return len(client.get_status().recent_evictions)


def failover(plane: ControlPlane, directory: Path, pool: str, way: str, lease: list[str]) -> Json:
    """Seconds of one failover."""
    fill(plane, pool)
    with ExitStack() as stack:
        options = [f"--store={stack.enter_context(running_postgresql())}", *lease]
        old, old_client = start(stack, plane, directory / f"{pool}-a", pool, options)
        until(lambda: leads(old_client), LIMIT_S, "the first one leads")
        _, new_client = start(stack, plane, directory / f"{pool}-b", pool, options)
        answer = old_client.start_deletion(deletion_of("drain", to_drain(pool)))
        assert [one.detail for one in answer.nodes if not one.accepted] == []
        until(lambda: evicted(old_client) > 0, LIMIT_S, "an eviction")
        begun = time.monotonic()
        if way == "killed":
            kill(old)
        else:
            old.terminate()
        until(lambda: leads(new_client), LIMIT_S, "the second one leads")
        leads_s, before = time.monotonic() - begun, evicted(new_client)
        until(lambda: evicted(new_client) > before, LIMIT_S, "the next eviction")
        return {"way": way, "leads_s": round(leads_s, 2), "evicts_s": round(time.monotonic() - begun, 2)}


def main(
    times: Annotated[int, typer.Argument(min=1, help="failovers of each kind")] = 3,
    duration: Annotated[float, typer.Option(help="--lease-duration, seconds")] = 15,
    deadline: Annotated[float, typer.Option(help="--renew-deadline, seconds")] = 10,
    retry: Annotated[float, typer.Option(help="--lease-retry, seconds")] = 2,
    binaries: Annotated[Path | None, typer.Option(help="the control plane; none = where .ci/e2e builds it")] = None,
) -> None:
    """Measure how long there is no leader and no eviction after the leader has ended."""
    if missing():
        raise typer.BadParameter(missing())
    lease = [f"--lease-duration={duration}", f"--renew-deadline={deadline}", f"--lease-retry={retry}"]
    binaries = binaries or cached_binaries()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        directory = Path(name)
        stages = write_stages(binaries, directory / "stages.yaml", slow_ms=700, job_ms=100)
        plane = stack.enter_context(ControlPlane(binaries, directory / "state", stages=[stages]))
        for way in ("killed", "told"):
            found = [failover(plane, directory, f"{way}{number}", way, lease) for number in range(times)]
            for line in found:
                print(json.dumps(line), flush=True)
            medians = {key: statistics.median(one[key] for one in found) for key in ("leads_s", "evicts_s")}
            print(json.dumps({"way": way, "lease": lease, "median": medians}), flush=True)


if __name__ == "__main__":
    typer.run(main)
