"""The loop continues through failures, reports them, and ends when stopped."""

import threading
import time
from collections.abc import Iterator

import pytest
import urllib3
import yaml

from tests.builders.api_server import FakeApiServer
from tests.builders.loop import Scripted, run, unavailable
from tests.builders.waiting import LIMIT_S
from trimtab.clients.loop.health import Health, HealthServer
from trimtab.clients.loop.loop import Loop, LoopServices, LoopSettings
from trimtab.clients.loop.status_map import StatusMap
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.common.kubernetes.errors import KubernetesError, MissingPermissionError
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import Backoff

QUICK = LoopSettings(interval_s=0.01, backoff=Backoff(0.01, 0.02))
MAP = "/api/v1/namespaces/kube-system/configmaps/trimtab-status"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        yield started


def test_the_loop_waits_during_failures_and_logs_them_until_they_end(server: FakeApiServer) -> None:
    rounds = Scripted(unavailable(), KubernetesError("the cluster is away"), unavailable())
    api = Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))
    health = Health(60)
    seen: list[str] = []
    status_map = StatusMap(api, "kube-system", "trimtab-status")
    loop = Loop(rounds, LoopSettings(0.01, 2, Backoff(0.01, 0.02)), LoopServices(health, status_map=status_map))
    rounds.on_round = lambda: seen.append(loop.trouble)
    run(loop)
    assert seen[0] == ""
    assert "the cluster is away" in seen[2]
    assert (rounds.count, loop.trouble, health.not_ready) == (5, "", "")
    status = yaml.safe_load(server.documents[MAP]["data"]["status"])
    assert status["autoscalerStatus"] == "Running"
    assert status["clusterWide"]["scaleDown"]["status"] == "NoCandidates"


def test_while_it_fails_the_status_says_why(server: FakeApiServer) -> None:
    rounds = Scripted(*[KubernetesError("no quota today")] * 100_000)
    status_map = StatusMap(
        Api(Connection(server.url, urllib3.PoolManager(), lambda: "")), "kube-system", "trimtab-status"
    )
    loop = Loop(rounds, QUICK, LoopServices(Health(60), status_map=status_map))
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    end = time.monotonic() + LIMIT_S
    while MAP not in server.documents and time.monotonic() < end:
        time.sleep(0.01)
    loop.stop()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert "no quota today" in yaml.safe_load(server.documents[MAP]["data"]["status"])["message"]


@pytest.mark.parametrize("error", [MissingPermissionError("- verbs: [list]"), ZeroDivisionError()], ids=repr)
def test_an_error_that_retries_cannot_mend_ends_the_loop(error: Exception) -> None:
    loop = Loop(Scripted(error), QUICK, LoopServices(Health(60)))
    with pytest.raises(type(error)):
        loop.run()


def test_a_stopping_loop_gives_no_more_orders() -> None:
    rounds = Scripted()
    loop = Loop(rounds, QUICK, LoopServices(Health(60)))
    asked: list[bool] = []

    def stop_midway() -> None:
        loop.stop()
        asked.append(loop._may_act())

    rounds.on_round = stop_midway
    run(loop)
    assert asked == [False]
    assert rounds.count == 1


def test_an_error_of_a_service_counts_as_one_to_wait_out() -> None:
    rounds = Scripted(unavailable())
    assert isinstance(rounds.failures[0], TrimtabError)
    loop = Loop(rounds, LoopSettings(0.01, 1, Backoff(0.01, 0.02)), LoopServices(Health(60)))
    run(loop)
    assert rounds.count == 2


def test_probes_tell_a_stuck_loop_from_one_that_waits_for_its_cluster() -> None:
    now = [0.0]
    health = Health(10, lambda: now[0])
    with HealthServer("127.0.0.1:0", health) as server:
        pool = urllib3.PoolManager()

        def get(path: str) -> int:
            return pool.request("GET", f"http://{server.address}{path}", retries=False).status

        assert (get("/healthz"), get("/readyz"), get("/other")) == (200, 503, 404)
        health.not_ready = ""
        now[0] = 11
        assert (get("/healthz"), get("/livez"), get("/readyz")) == (503, 503, 200)
        health.active()
        assert get("/healthz?verbose") == 200
        pool.clear()
