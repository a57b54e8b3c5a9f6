"""Annotations of pods in a live cluster: slack that pods request themselves, and numbers that change."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import urllib3
from google.protobuf.json_format import MessageToDict

from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer
from tests.builders.live_snapshots import cluster_of, put, until
from tests.builders.waiting import LIMIT_S
from trimtab.clients.live.cluster import LiveCluster
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.planner.snapshot.pod_specs import read_slack_requests
from trimtab.v1 import snapshot_pb2 as pb

WEB, IDLE = k8s.replica_set("web", 3), "example.com/idle"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        put(started, k8s.node("n1"), k8s.namespace("default"), WEB, k8s.pod("plain", node="n1"))
        yield started


@pytest.fixture
def cluster(server: FakeApiServer) -> Iterator[LiveCluster]:
    with cluster_of(server) as started:
        assert started.wait_until_listed(LIMIT_S)
        yield started


def asking(name: str, amount: str | None, **fields: Any) -> k8s.Json:
    annotations = {} if amount is None else {"trimtab.dev/slack": amount}
    return k8s.pod(name, "250m", node="n1", labels={"app": name[0]}, annotations=annotations, **fields)


def delta_of(cluster: LiveCluster) -> pb.SnapshotDelta:
    delta = cluster.next_update([]).update.delta
    assert delta is not None
    return delta


def described(requests: pb.SlackRequests) -> dict[str, Any]:
    """Return the requests as the planner reads them."""
    return {one.object: (one.amount, one.scale, one.labels, one.spec) for one in read_slack_requests(requests)}


def put_and_wait(cluster: LiveCluster, server: FakeApiServer, *pods: k8s.Json) -> None:
    before = cluster.store.revision
    put(server, *pods)
    until(lambda: cluster.store.revision >= before + len(pods))


def test_pods_ask_for_slack_by_their_own_annotation_as_those_of_files_do(
    cluster: LiveCluster, server: FakeApiServer
) -> None:
    first = cluster.next_update([]).update.snapshot
    assert first is not None
    assert not first.HasField("slack_requests")
    pods = [asking("alone", "2"), *(asking(f"w{i}", "50%", owner=WEB) for i in range(2))]
    put_and_wait(cluster, server, *pods)
    changed = delta_of(cluster).changed.slack_requests
    from_files = k8s.snapshot_of(k8s.node("n1"), WEB, *pods).slack_requests
    assert described(changed) == described(from_files)
    assert sorted(described(changed)) == ["Pod/default/alone", "ReplicaSet/default/web"]
    cluster.forget()
    whole = cluster.next_update([]).update.snapshot
    assert whole is not None
    assert described(whole.slack_requests) == described(from_files)


def test_what_pods_ask_for_is_followed(cluster: LiveCluster, server: FakeApiServer) -> None:
    cluster.next_update([])
    put_and_wait(cluster, server, asking("alone", "2"))
    delta_of(cluster)
    # Only the annotation changes.
    put_and_wait(cluster, server, asking("alone", "3"))
    assert [one.amount for one in delta_of(cluster).changed.slack_requests.requests] == ["3"]
    put_and_wait(cluster, server, k8s.pod("other", node="n1"))
    assert not delta_of(cluster).changed.HasField("slack_requests")
    put_and_wait(cluster, server, asking("alone", None))
    changed = delta_of(cluster).changed
    assert changed.HasField("slack_requests")
    assert MessageToDict(changed.slack_requests).get("requests") is None
    put_and_wait(cluster, server, asking("alone", "1"))
    assert len(delta_of(cluster).changed.slack_requests.requests) == 1
    server.remove("/api/v1/pods", "default/alone")
    until(lambda: ("default", "alone") not in cluster.store.pods)
    assert not delta_of(cluster).changed.slack_requests.requests


def test_a_number_that_alone_changes_is_sent(server: FakeApiServer) -> None:
    api = Api(Connection(server.url, urllib3.PoolManager(maxsize=32), lambda: ""))
    with LiveCluster(api, numbers=[IDLE]) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        cluster.next_update([])
        for value in ("5", "7"):
            put_and_wait(cluster, server, k8s.pod("idle", node="n1", annotations={IDLE: value}))
            assert np.frombuffer(delta_of(cluster).changed.pods.number, "<f8").tolist() == [float(value)]
