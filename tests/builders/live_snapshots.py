"""A live cluster behind a fake API server."""

import time
from collections.abc import Callable

import urllib3

from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer
from tests.builders.kubernetes_protobuf import encoded
from tests.builders.waiting import LIMIT_S
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.live.reflector import ReflectorSettings, RelistBackoffSettings
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.common.kubernetes.registry import WATCHED

QUICK = ReflectorSettings(page_limit=3, watch_timeout_s=30, backoff=RelistBackoffSettings(0.01, 0.05))


def put(server: FakeApiServer, *objects: k8s.Json) -> None:
    for one in objects:
        server.put(WATCHED[one["kind"]].path, encoded(one))


def cluster_of(server: FakeApiServer) -> LiveCluster:
    return LiveCluster(Api(Connection(server.url, urllib3.PoolManager(maxsize=32), lambda: "")), QUICK)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
