"""Since when a node is unneeded, with the real planner: known to a loop that has just been started."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from clients.cli.live.links import open_link
from clients.kubernetes_api.api import Api
from clients.kubernetes_api.connection import Connection
from clients.kubernetes_objects import decode_objects
from clients.live_cluster.cluster import LiveCluster
from clients.live_cluster.resources import BY_KIND
from clients.reference_loop.health import Health
from clients.reference_loop.kept_state import Place, StateConfigMap, StateFile, StateKeeper
from clients.reference_loop.loop import Loop, LoopSettings, Surroundings
from clients.reference_loop.planner_session import PlannerSession
from clients.reference_loop.rounds import Rounds, RoundSettings
from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer
from tests.builders.kubernetes_protobuf import encoded

NOW_S = 1_790_000_000.0
GROUPS = tuple(decode_objects([k8s.node_group("a", 0, 5, selector={"pool": "a"})]).of("NodeGroup"))


@pytest.fixture
def api() -> Iterator[Api]:
    with FakeApiServer() as server:
        web = k8s.replica_set("web", 2)
        nodes = [k8s.node(f"n{i}", labels={"pool": "a"}) for i in range(3)]
        for one in (*nodes, web, k8s.namespace(), *k8s.pods_of(web, 2, node="n0")):
            server.put(BY_KIND[one["kind"]].path, encoded(one))
        yield Api(Connection(server.url, urllib3.PoolManager(maxsize=32), lambda: ""))


def since(api: Api, place: Place, now_s: float) -> dict[str, int]:
    """Run a loop for one round; return since when which nodes are unneeded."""
    with LiveCluster(api) as cluster, open_link(None) as link:
        assert cluster.wait_until_listed(20)
        rounds = Rounds(cluster, PlannerSession(link), None, RoundSettings("c", groups=GROUPS))
        around = Surroundings(Health(60), states=StateKeeper(place, "c", 300))
        loop = Loop(rounds, LoopSettings(0.01, 1), around, lambda: now_s)
        loop.run()
    assert loop.last is not None
    return {one.node: one.since.seconds for one in loop.last.answer.scale_down.unneeded}


@pytest.mark.parametrize("where", ["file", "ConfigMap"])
def test_timers_of_nodes_go_on_after_a_restart(api: Api, tmp_path: Path, where: str) -> None:
    place: Place = StateFile(tmp_path / "state") if where == "file" else StateConfigMap(api, "here", "kept")
    first = since(api, place, NOW_S)
    assert set(first.values()) == {int(NOW_S)}
    assert len(first) == 2
    assert since(api, place, NOW_S + 200) == first
    afresh = since(api, place, NOW_S + 200 + 301)
    assert set(afresh.values()) == {int(NOW_S) + 501}, "nobody has watched for too long"
