"""The actuator is killed again and again at its writes and calls, on a real control plane, and ends right all the same.

The number of deaths is TRIMTAB_CRASH_POINTS (40 without it), the first seed TRIMTAB_CRASH_SEED. A scenario dies five
times at moments drawn from its seed; all scenarios run in one cluster, each on nodes of its own.

A caller that dies within an eviction may leave the API server with a budget that counts a pod as disrupted which stays;
Kubernetes forgets that after two minutes. The budget is wide enough that a scenario seldom has to wait for it.
"""

import os
import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from trimtab.v1 import actuator_pb2, plan_pb2

from clients.actuator_client import ActuatorClient
from clients.transport.errors import TrimtabError
from tests.e2e import watch_log, workloads
from tests.e2e.actuator_process import (
    EndedError,
    Json,
    all_ready,
    apply,
    command,
    listed,
    living,
    serving,
    until,
    wishes,
)
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.dying_actuator import VARIABLE
from tests.e2e.nursery import Life, Nursery

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(7200)]

DEATHS = 5
POINTS = int(os.environ.get("TRIMTAB_CRASH_POINTS", "40"))
FIRST_SEED = int(os.environ.get("TRIMTAB_CRASH_SEED", "1"))
# Moments of a life that dies: from none of the work to most of it.
LATEST = 90


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(cached_binaries(), tmp_path_factory.mktemp("plane") / "state") as started:
        yield started


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery("tests.e2e.dying_actuator") as started:
        yield started


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + (POINTS + DEATHS - 1) // DEATHS))
def test_killed_at_any_moment_nothing_is_lost_and_nothing_done_twice(
    plane: ControlPlane, nursery: Nursery, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    moments = [chance.randint(1, LATEST) for _ in range(DEATHS)]
    pool = f"s{seed}"
    print(f"\nseed {seed}: dies at moments {moments}")
    apply(plane, *workloads.nodes(pool, 6, pool=pool))
    apply(
        plane,
        workloads.deployment(f"web-{pool}", 10, pool=pool),
        workloads.stateful_set(f"db-{pool}", 4, pool=pool),
        workloads.budget(f"web-{pool}", f"web-{pool}", maxUnavailable=4),
    )
    until(lambda: all_ready(plane), 60, "workloads ready")
    with watch_log.WatchLog(plane, tmp_path) as log:
        deaths = live_and_die(plane, nursery, tmp_path / "actuator", pool, moments)
        until(lambda: all_ready(plane), 60, "workloads ready again")
    print(f"seed {seed}: died {deaths} times")
    assert deaths, "no life was short enough"
    check(log.changes(), pool)
    left = [one for one in listed(plane, "nodes") if one["metadata"]["labels"].get("pool") == pool]
    assert len(left) == 6 - 3 + 2
    assert [one["metadata"]["name"] for one in left if one["spec"].get("taints")] == []


def live_and_die(plane: ControlPlane, nursery: Nursery, directory: Path, pool: str, moments: list[int]) -> int:
    """Ask for the same in each life, as a caller does; the last life goes on until all has ended. Returns the deaths.

    A life that comes late may have too little left to do to reach its moment.
    """
    options = command(plane, directory, [workloads.group(pool, 20, pool=pool)])
    deaths = 0
    for moment in [*moments, 0]:
        birth = partial(nursery.give_birth, options, {VARIABLE: str(moment)}, directory / "log")
        try:
            with living(directory, birth, 1) as (process, client):
                deaths += live(process, client, pool, mortal=moment > 0)
        except (TrimtabError, EndedError):
            if moment == 0:
                raise
            deaths += 1
    return deaths


def live(process: Life, client: ActuatorClient, pool: str, *, mortal: bool) -> bool:
    """One life, until there is nothing left to do, or it has ended; whether it has."""
    serving(process, client)
    status = ask(client, pool)
    if mortal:
        until(lambda: process.poll() is not None or idle(client), 60, "the end of a life")
        return process.poll() is not None
    while status.deletions or status.node_groups[0].instance_count != 5:
        time.sleep(0.05)
        status = client.get_status()
    check_status(status, pool)
    return False


def ask(client: ActuatorClient, pool: str) -> actuator_pb2.ActuatorStatus:
    answer = client.start_deletion(wishes(f"drain-{pool}", [f"{pool}-{number}" for number in (1, 2, 3)]))
    assert [one.detail for one in answer.nodes if not one.accepted] == []
    client.scale_up(f"grow-{pool}", [plan_pb2.ScaleUpSplit(node_group=pool, current_size=6, new_size=8)])
    return client.get_status()


def idle(client: ActuatorClient) -> bool:
    try:
        return not client.get_status().deletions
    except TrimtabError:
        return True


def check_status(status: actuator_pb2.ActuatorStatus, pool: str) -> None:
    ended = {one.node: actuator_pb2.DeletionState.Code.Name(one.state) for one in status.finished}
    assert ended == dict.fromkeys((f"{pool}-1", f"{pool}-2", f"{pool}-3"), "DELETED")
    assert len(status.finished) == 3
    assert status.node_groups[0].target_size == 5
    uids = [one.uid for one in status.recent_evictions]
    assert len(uids) == len(set(uids))


def check(changes: list[watch_log.Change], pool: str) -> None:
    mine = [change for change in changes if of_pool(change.item, pool)]
    gone = {f"{pool}-1", f"{pool}-2", f"{pool}-3"}
    assert watch_log.gone_nodes(mine) == gone
    flips = watch_log.taint_flips(mine)
    assert {name: count for name, count in flips.items() if count} == dict.fromkeys(gone, 1), "each is tainted once"
    assert watch_log.unprotected_evictions(mine) == []
    moved = watch_log.ended_pods(mine).values()
    assert {pod["spec"].get("nodeName") for pod in moved} <= gone
    assert watch_log.lowest_health(mine, "default", {"app": f"web-{pool}"}) >= 6


def of_pool(item: Json, pool: str) -> bool:
    selector = item["spec"].get("nodeSelector") or item["metadata"].get("labels") or {}
    return bool(selector.get("pool") == pool)
