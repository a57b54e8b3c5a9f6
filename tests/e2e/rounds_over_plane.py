"""The reference loop's rounds on a real control plane, made one by one by a test, with an actuator process."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from tests.e2e.actuator_process import command, running, serving, until
from tests.e2e.control_plane.control_plane import ControlPlane
from trimtab.clients.actuator_client import ActuatorClient
from trimtab.clients.cli.planners import open_link
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundResult, RoundRunner, RoundSettings
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.common.objects import decode_objects

SLOW_S = 120.0


class Rounds(NamedTuple):
    """Rounds, and what they are made of; `numbers` counts them."""

    runner: RoundRunner
    cluster: LiveCluster
    actuator: ActuatorClient
    numbers: Iterator[int]

    def run(self) -> RoundResult:
        """One round, now."""
        now = Timestamp()
        now.GetCurrentTime()
        return self.runner.run(f"round-{next(self.numbers)}", now, lambda: True)

    def until_slack(self, result: int) -> RoundResult:
        """Make rounds until slack has a result (`SlackResult.Code`); return the last one."""
        end = time.monotonic() + SLOW_S
        while time.monotonic() < end:
            done = self.run()
            assert not done.refused
            if done.answer.slack.result == result:
                return done
        raise AssertionError(f"not so after {SLOW_S} s: {done.answer.slack}")


@contextmanager
def rounds_over(
    plane: ControlPlane, directory: Path, settings: RoundSettings, groups: Sequence[dict[str, Any]]
) -> Iterator[Rounds]:
    """Start an actuator with these node groups and a watcher; yield rounds once both are ready."""
    more = ("--namespace=default", "--leader-elect", "--max-pod-costs=1000", "--max-pod-cost-time=60")
    chosen = replace(settings, groups=tuple(decode_objects(list(groups)).of("NodeGroup")))
    with rounds_of(plane, directory, command(plane, directory, groups, *more), chosen) as rounds:
        yield rounds


@contextmanager
def rounds_of(
    plane: ControlPlane, directory: Path, options: Sequence[str], settings: RoundSettings
) -> Iterator[Rounds]:
    """Likewise, with an actuator of these options, which has to elect a leader."""
    with (
        running(directory, options) as (process, client),
        LiveCluster(Api(connect_cluster(ConnectionSettings(plane.kubeconfig("admin"))))) as cluster,
        open_link(None) as link,
    ):
        serving(process, client)
        until(lambda: client.get_info().leader, SLOW_S, "leading")
        assert cluster.wait_until_listed(SLOW_S)
        yield Rounds(RoundRunner(cluster, PlannerSession(link), client, settings), cluster, client, count(1))
