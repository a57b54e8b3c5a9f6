"""Times since when nodes are unneeded, with the real planner, are known to a newly started loop."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3
from google.protobuf.timestamp_pb2 import Timestamp
from structlog.testing import capture_logs

from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer
from tests.builders.kubernetes_protobuf import encoded
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.planners import open_link
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.loop.health import Health
from trimtab.clients.loop.kept_state import StateConfigMap, StateFile, StateKeeper, StateStorage
from trimtab.clients.loop.loop import Loop, LoopServices, LoopSettings
from trimtab.clients.loop.loop_clock import LoopClock
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundResult, RoundRunner, RoundSettings
from trimtab.clients.verdicts import going
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.common.objects import decode_objects

NOW_S = 1_790_000_000.0
GROUPS = tuple(decode_objects([k8s.node_group("a", 0, 5, selector={"pool": "a"})]).of("NodeGroup"))


@pytest.fixture
def api() -> Iterator[Api]:
    with FakeApiServer() as server:
        web = k8s.replica_set("web", 2)
        nodes = [k8s.node(f"n{i}", labels={"pool": "a"}) for i in range(3)]
        for one in (*nodes, web, k8s.namespace(), *k8s.pods_of(web, 2, node="n0")):
            server.put(WATCHED[one["kind"]].path, encoded(one))
        yield Api(Connection(server.url, urllib3.PoolManager(maxsize=32), lambda: ""))


def since(api: Api, place: StateStorage, now_s: float) -> dict[str, int]:
    """Run a loop for one round; return the unneeded nodes and since when they are."""
    with LiveCluster(api) as cluster, open_link(None) as link:
        assert cluster.wait_until_listed(LIMIT_S)
        rounds = RoundRunner(cluster, PlannerSession(link), None, RoundSettings("c", groups=GROUPS))
        around = LoopServices(Health(60), states=StateKeeper(place, "c", 300))
        loop = Loop(rounds, LoopSettings(0.01, 1), around, LoopClock(lambda: now_s, lambda: 0.0))
        loop.run()
    assert loop.last is not None
    return {one.node: one.since.seconds for one in going(loop.last.answer)}


@pytest.mark.parametrize("where", ["file", "ConfigMap"])
def test_timers_of_nodes_continue_after_a_restart(api: Api, tmp_path: Path, where: str) -> None:
    place: StateStorage = StateFile(tmp_path / "state") if where == "file" else StateConfigMap(api, "here", "kept")
    first = since(api, place, NOW_S)
    assert set(first.values()) == {int(NOW_S)}
    assert len(first) == 2
    assert set(since(api, place, NOW_S + 20).values()) == {int(NOW_S) + 20}, "nobody watched in between"
    afresh = since(api, place, NOW_S + 200 + 301)
    assert set(afresh.values()) == {int(NOW_S) + 501}, "nobody has watched for too long"


class Clocks:
    """A wall clock and a monotonic clock, set by the test."""

    def __init__(self) -> None:
        self.wall_s, self.monotonic_s = NOW_S, 50.0

    def pass_(self, seconds: float, step_s: float = 0.0) -> None:
        """Advance time, and set the wall clock."""
        self.monotonic_s += seconds
        self.wall_s += seconds + step_s


@pytest.mark.parametrize(
    "step_s",
    [
        pytest.param(660.0, id="11 minutes on"),
        pytest.param(-660.0, id="11 minutes back", marks=pytest.mark.nightly),
        pytest.param(86_400.0, id="a day on", marks=pytest.mark.nightly),
    ],
)
def test_a_step_of_the_wall_clock_is_not_credited_to_timers_of_nodes(api: Api, tmp_path: Path, step_s: float) -> None:
    clocks = Clocks()
    place = StateFile(tmp_path / "state")
    unneeded: list[dict[str, float]] = []

    class Watched(RoundRunner):
        """Rounds 20 s apart; the wall clock is set after the second."""

        def run(self, request_id: str, now: Timestamp, may_act: Callable[[], bool]) -> RoundResult:
            done = super().run(request_id, now, may_act)
            decision = done.answer.scale_down
            assert not decision.delete_empty
            unneeded.append({one.node: now.seconds - one.since.seconds for one in going(done.answer)})
            clocks.pass_(20, step_s if len(unneeded) == 2 else 0.0)
            return done

    def run_loop(rounds_wanted: int) -> None:
        with LiveCluster(api) as cluster, open_link(None) as link:
            assert cluster.wait_until_listed(LIMIT_S)
            rounds = Watched(cluster, PlannerSession(link), None, RoundSettings("c", groups=GROUPS))
            around = LoopServices(Health(60), states=StateKeeper(place, "c", 300))
            clock = LoopClock(lambda: clocks.wall_s, lambda: clocks.monotonic_s)
            Loop(rounds, LoopSettings(0.001, rounds_wanted), around, clock).run()

    with capture_logs() as lines:
        run_loop(4)
    assert [set(one.values()) for one in unneeded] == [{0}, {20}, {40}, {60}]
    assert [line["step_s"] for line in lines if line["event"] == "clock_stepped"] == [step_s]
    run_loop(1)
    assert set(unneeded[-1].values()) == {80}, "what was kept has the moved times"
    clocks.pass_(5, 200)
    run_loop(1)
    assert set(unneeded[-1].values()) == {100}, "a step while no loop runs is not credited either"
