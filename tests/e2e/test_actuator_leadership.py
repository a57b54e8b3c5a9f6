"""Two actuators over one store: mid-drain the leader dies, stands still for a while, or is told to go."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from actuator.store.sql import sqlite_url
from clients.actuator_client import ActuatorClient
from clients.transport.errors import TrimtabError
from tests.builders.postgresql import missing, running_postgresql
from tests.e2e import watch_log, workloads
from tests.e2e.actuator_process import Json, all_ready, apply, command, kill, listed, running, serving, until, wishes
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.stages import write_stages

pytestmark = pytest.mark.e2e

LEASE = ("--leader-elect", "--lease-duration=3", "--renew-deadline=2", "--lease-retry=0.3")
NODES, TO_DRAIN = 8, 5


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    directory = tmp_path_factory.mktemp("plane")
    stages = write_stages(cached_binaries(), directory / "stages.yaml", slow_ms=700, job_ms=100)
    with ControlPlane(cached_binaries(), directory / "state", stages=[stages]) as started:
        yield started


@contextmanager
def shared_store(directory: Path) -> Iterator[str]:
    """URL of a store that two processes share: PostgreSQL where it is installed, else one SQLite file."""
    if missing():
        yield sqlite_url(directory / "shared.sqlite")
        return
    with running_postgresql() as url:
        yield url


def fill(plane: ControlPlane, pool: str) -> None:
    apply(plane, *workloads.nodes(pool, NODES, pool=pool))
    apply(
        plane,
        workloads.deployment(f"web-{pool}", 16, pool=pool, slow="yes"),
        workloads.budget(f"web-{pool}", f"web-{pool}", maxUnavailable=1),
    )
    until(lambda: all_ready(plane), 60, "workloads ready")


@pytest.mark.parametrize("way", ["killed", "stopped", "told"])
def test_the_other_takes_over_and_nothing_is_done_twice(plane: ControlPlane, tmp_path: Path, way: str) -> None:
    pool = way
    fill(plane, pool)
    drained = [f"{pool}-{number}" for number in range(1, TO_DRAIN + 1)]
    with ExitStack() as stack:
        store = stack.enter_context(shared_store(tmp_path))
        log = stack.enter_context(watch_log.WatchLog(plane, tmp_path))
        old, old_client = start(stack, plane, tmp_path / "a", pool, store)
        until(lambda: leads(old_client), 20, "the first one leads")
        new, new_client = start(stack, plane, tmp_path / "b", pool, store)
        answer = old_client.start_deletion(wishes("drain", drained))
        assert [one.detail for one in answer.nodes if not one.accepted] == []
        check_follower(new_client, len(drained))
        until(lambda: len(old_client.get_status().recent_evictions) >= 3, 30, "some evictions")
        if way == "killed":
            kill(old)
        elif way == "told":
            old.terminate()
            assert old.wait(30) == 0
        else:
            old.send_signal(signal.SIGSTOP)
        until(lambda: leads(new_client), 30, "the second one leads")
        if way == "stopped":
            os.kill(old.pid, signal.SIGCONT)
            until(lambda: old.poll() is not None, 30, "the old leader ends")
            assert old.returncode == 2
        until(lambda: not new_client.get_status().deletions, 90, "all drains over")
        states = {one.node: one.state for one in new_client.get_status().finished}
        assert (len(states), set(states.values())) == (TO_DRAIN, {6})
        assert new.poll() is None
        until(lambda: all_ready(plane), 60, "workloads ready again")
    check(log.changes(), pool, set(drained))
    left = [one for one in listed(plane, "nodes") if one["metadata"]["labels"].get("pool") == pool]
    assert [one["metadata"]["name"] for one in left if one["spec"].get("taints")] == []
    assert len(left) == NODES - TO_DRAIN


def start(
    stack: ExitStack, plane: ControlPlane, directory: Path, pool: str, store: str
) -> tuple[subprocess.Popen[bytes], ActuatorClient]:
    groups = [workloads.group(pool, 20, pool=pool)]
    lease = (*LEASE, f"--lease-name=lease-{pool}")
    options = command(plane, directory, groups, f"--store={store}", *lease)
    process, client = stack.enter_context(running(directory, options))
    serving(process, client)
    return process, client


def leads(client: ActuatorClient) -> bool:
    return client.get_info().leader


def check_follower(client: ActuatorClient, deletion_count: int) -> None:
    """It answers reads with what the leader does, and refuses the rest naming the leader."""
    assert not client.get_info().leader
    until(lambda: len(client.get_status().deletions) == deletion_count, 10, "the follower sees the deletions")
    for call in (
        lambda: client.start_deletion(wishes("other", ["nowhere"])),
        lambda: client.cancel_deletion(["nowhere"]),
        lambda: client.apply_taints([]),
    ):
        with pytest.raises(TrimtabError, match="NOT_LEADER") as caught:
            call()
        assert caught.value.metadata["leader"]


def check(changes: list[watch_log.Change], pool: str, drained: set[str]) -> None:
    mine = [change for change in changes if of_pool(change.item, pool)]
    assert watch_log.gone_nodes(mine) == drained
    flips = watch_log.taint_flips(mine)
    assert {name: count for name, count in flips.items() if count} == dict.fromkeys(drained, 1)
    assert watch_log.unprotected_evictions(mine) == []
    assert {pod["spec"].get("nodeName") for pod in watch_log.ended_pods(mine).values()} <= drained
    assert watch_log.lowest_health(mine, "default", {"app": f"web-{pool}"}) >= 15


def of_pool(item: Json, pool: str) -> bool:
    selector = item["spec"].get("nodeSelector") or item["metadata"].get("labels") or {}
    return bool(selector.get("pool") == pool)
