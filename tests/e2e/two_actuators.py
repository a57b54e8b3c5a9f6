"""Two actuators that share a store and elect a leader, and what must hold whichever one led."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.builders.postgresql import missing, running_postgresql
from tests.e2e import watch_log, workloads
from tests.e2e.actuator_process import all_ready, apply, command, listed, running, serving, until
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.actuator.store.sql import sqlite_url
from trimtab.clients.actuator_client import ActuatorClient

LEASE = ("--leader-elect", "--lease-duration=3", "--renew-deadline=2", "--lease-retry=0.3")
NODES, TO_DRAIN, WEB = 8, 5, 16
DELETED = 6


@contextmanager
def shared_store(directory: Path) -> Iterator[str]:
    """Yield the URL of a store that two processes share: PostgreSQL if it is installed, else one SQLite file."""
    if missing():
        yield sqlite_url(directory / "shared.sqlite")
        return
    with running_postgresql() as url:
        yield url


def fill(plane: ControlPlane, pool: str) -> None:
    """Create nodes with pods whose budget allows one eviction at a time."""
    apply(plane, *workloads.nodes(pool, NODES, pool=pool))
    apply(
        plane,
        workloads.deployment(f"web-{pool}", WEB, pool=pool, slow="yes"),
        workloads.budget(f"web-{pool}", f"web-{pool}", maxUnavailable=1),
    )
    until(lambda: all_ready(plane), 60, "workloads ready")


def to_drain(pool: str) -> list[str]:
    """Return the nodes to be removed."""
    return [f"{pool}-{number}" for number in range(1, TO_DRAIN + 1)]


def start(
    stack: ExitStack, plane: ControlPlane, directory: Path, pool: str, options: Sequence[str]
) -> tuple["subprocess.Popen[bytes]", ActuatorClient]:
    """Start one of the two; return it once it serves."""
    groups = [workloads.group(pool, 20, pool=pool)]
    more = (*LEASE, f"--lease-name=lease-{pool}", *options)
    process, client = stack.enter_context(running(directory, command(plane, directory, groups, *more)))
    serving(process, client)
    return process, client


def leads(client: ActuatorClient) -> bool:
    """Return whether it leads."""
    return client.get_info().leader


def wait_for_the_end(plane: ControlPlane, client: ActuatorClient) -> None:
    """Wait until the leader reports all nodes gone, each once, and all pods are back."""
    until(lambda: not client.get_status().deletions, 90, "all drains over")
    finished = client.get_status().finished
    assert (len(finished), {one.state for one in finished}) == (TO_DRAIN, {DELETED})
    until(lambda: all_ready(plane), 60, "workloads ready again")


def check(plane: ControlPlane, changes: list[watch_log.Change], pool: str) -> None:
    """Check that all nodes are gone, tainted once and emptied only by eviction, and that the budget was kept."""
    drained, mine = set(to_drain(pool)), [change for change in changes if of_pool(change.item, pool)]
    assert watch_log.gone_nodes(mine) == drained
    flips = watch_log.taint_flips(mine)
    assert {name: count for name, count in flips.items() if count} == dict.fromkeys(drained, 1)
    assert watch_log.unprotected_evictions(mine) == []
    assert {pod["spec"].get("nodeName") for pod in watch_log.ended_pods(mine).values()} <= drained
    assert watch_log.lowest_health(mine, "default", {"app": f"web-{pool}"}) >= WEB - 1
    left = [one for one in listed(plane, "nodes") if one["metadata"]["labels"].get("pool") == pool]
    assert [one["metadata"]["name"] for one in left if one["spec"].get("taints")] == []
    assert len(left) == NODES - TO_DRAIN


def of_pool(item: dict[str, Any], pool: str) -> bool:
    """Return whether an object belongs to a pool."""
    selector = item["spec"].get("nodeSelector") or item["metadata"].get("labels") or {}
    return bool(selector.get("pool") == pool)
