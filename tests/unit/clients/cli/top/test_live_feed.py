"""The live screen of a cluster behind a fake API server: it follows changes, survives the loss of its connection, shows
the actuator's deletions, and says what lacks.
"""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from textual.pilot import Pilot

from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer
from tests.builders.cli import Run
from tests.builders.kubernetes_protobuf import encoded
from tests.builders.live_commands import kubeconfig
from tests.builders.loop import FakeActuator, unavailable
from tests.builders.screens import planned, text_of_terminal, until, until_shown, with_terminal
from trimtab.clients.cli.command_options import TopOptions
from trimtab.clients.cli.live.last_cluster import LastCluster
from trimtab.clients.cli.plan import CommandOptions
from trimtab.clients.cli.top.app import TopApp
from trimtab.clients.cli.top.command import _feed
from trimtab.clients.cli.top.live_feed import LiveCalls, LiveFeed
from trimtab.clients.in_process_planner import InProcessLink
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRunner, RoundSettings
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.watched.snapshot_update import Observation, SnapshotUpdate
from trimtab.v1 import actuator_pb2


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApiServer]:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    web = k8s.replica_set("web", 2)
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2")]
    with FakeApiServer() as started:
        for one in [*nodes, web, k8s.namespace(), *k8s.pods_of(web, 2, node="n1")]:
            started.put(WATCHED[one["kind"]].path, encoded(one))
        yield started


def options(folder: Path, server: FakeApiServer) -> CommandOptions:
    groups = folder / "groups.json"
    groups.write_text(json.dumps(k8s.node_group("a", selector={"pool": "a"}, price=0.5)))
    return CommandOptions((groups,), kubeconfig=kubeconfig(folder, server.url))


def test_a_node_that_comes_is_shown_without_a_key(server: FakeApiServer, tmp_path: Path) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await until_shown(app, pilot, "2 nodes")
        server.put(WATCHED["Node"].path, encoded(k8s.node("n3", labels={"pool": "a"})))
        await until_shown(app, pilot, "3 nodes")
        await until_shown(app, pilot, "n3")

    with _feed(options(tmp_path, server), TopOptions(interval_s=0.1), is_once=False) as feed:
        with_terminal(act, feed)
    assert all(method == "GET" for method, path, _ in server.requests if "selfsubjectaccessreviews" not in path)


def test_once_only_lists_the_cluster(trimtab: Run, server: FakeApiServer, tmp_path: Path) -> None:
    given = options(tmp_path, server)
    done = trimtab("top", given.files[0], "--kubeconfig", given.kubeconfig, "--once")
    assert done.code == 0
    assert "(2 nodes, a month)" in done.out
    assert all(query.get("watch") is None for _, _, query in server.requests)


def test_permissions_that_lack_are_named_before_the_screen_opens(server: FakeApiServer, tmp_path: Path) -> None:
    server.forbidden = {("nodes", "watch")}
    lacking = pytest.raises(Exception, match=r"resources: \[nodes\], verbs: \[watch\]")
    with lacking, _feed(options(tmp_path, server), TopOptions(), is_once=False):
        pass


class StillCluster:
    """A cluster that stays as it is."""

    def next_update(self, groups: object, status: object = None) -> Observation:
        return Observation(SnapshotUpdate(planned().view.snapshot, None), [])

    def forget(self) -> None:
        """Nothing is kept."""

    def requeue(self) -> None:
        """Nothing is kept."""


def live(actuator: FakeActuator | None = None, troubles: dict[str, str] | None = None) -> LiveFeed:
    last = LastCluster()
    runner = RoundRunner(
        StillCluster(),
        PlannerSession(InProcessLink()),
        actuator,
        RoundSettings(dry_run=True),
        last,  # type: ignore[arg-type]
    )
    return LiveFeed(LiveCalls(runner, last, lambda: troubles or {}, "shop", interval_s=0.05))


class ActuatorThatLeaves(FakeActuator):
    """Answers while it is not away: of the pods of a drain some are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away, self.gone, self.calls = False, 1, 0

    def get_status(self, without_finished: bool = False, with_instances: bool = False) -> actuator_pb2.ActuatorStatus:
        self.calls += 1
        if self.is_away:
            raise unavailable()
        now = Timestamp()
        now.GetCurrentTime()
        drain = actuator_pb2.NodeDeletion(
            node="b-1", node_group="pool-b", drain=True, state=actuator_pb2.DeletionState.DRAINING, state_time=now,
            pods_total_count=9, pods_gone_count=self.gone,
        )  # fmt: skip
        groups = [
            actuator_pb2.NodeGroupStatus(id=name, max_size=9, target_size=2, instance_count=2)
            for name in ("pool-a", "pool-b")
        ]
        return actuator_pb2.ActuatorStatus(time=now, deletions=[drain], node_groups=groups)


def test_a_lost_connection_is_said_the_last_picture_stays_and_comes_to_life_again() -> None:
    actuator = ActuatorThatLeaves()

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await until_shown(app, pilot, "draining: 1 of 9 pods gone")
        actuator.is_away = True
        await until(app, pilot, lambda: re.search(r"attempt \d+, next in", text_of_terminal(app)) is not None)
        assert "draining: 1 of 9 pods gone" in text_of_terminal(app)
        actuator.is_away, actuator.gone = False, 3
        await until_shown(app, pilot, "draining: 3 of 9 pods gone")
        assert "attempt" not in text_of_terminal(app)
        assert app.failure is None

    with_terminal(act, live(actuator), size=(140, 24))


def test_what_the_watches_of_the_cluster_report_is_shown() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await until_shown(app, pilot, "the cluster is not followed at present: Node: connection refused")

    with_terminal(act, live(troubles={"Node": "connection refused"}), size=(140, 24))


class CountedWaits(threading.Event):
    """Counts how often a feed has begun to wait, which it does once between two rounds."""

    count = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.count += 1
        return super().wait(timeout)


def test_space_stops_rounds_and_starts_them_again() -> None:
    actuator, waits = ActuatorThatLeaves(), CountedWaits()
    feed = live(actuator)
    feed._stopped = waits

    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        async def until_waits(more: int) -> None:
            least = waits.count + more
            await until(app, pilot, lambda: waits.count >= least)

        await pilot.press("space")
        await until_shown(app, pilot, "paused")
        await until_waits(1)  # the round in progress ends
        before = actuator.calls
        await until_waits(3)
        assert actuator.calls == before
        await pilot.press("space")
        await until(app, pilot, lambda: actuator.calls > before)

    with_terminal(act, feed, size=(140, 24))


@pytest.mark.parametrize("gone", ["#head", "#foot", "RowTable"])
def test_the_clock_and_a_picture_may_come_while_the_app_ends_and_its_widgets_go(gone: str) -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await until_shown(app, pilot, "2,555, 5 nodes")
        await app.query(gone).remove()
        app._draw_head()
        app._draw()

    with_terminal(act, live(ActuatorThatLeaves()), size=(140, 24))


class BrokenFeed:
    """A feed that fails at once."""

    is_live, has_rounds = True, False

    def run(self, sink: object) -> None:
        raise TrimtabError(grpc.StatusCode.INVALID_ARGUMENT, Reason.SETTINGS_INVALID, "scale_down.x is wrong", {})

    def stop(self) -> None:
        """Nothing runs."""


def test_an_error_before_the_first_picture_ends_the_screen_and_is_kept_for_the_command() -> None:
    async def act(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.pause()

    app = with_terminal(act, BrokenFeed())  # type: ignore[arg-type]
    assert isinstance(app.failure, TrimtabError)
