"""NodePools and NodeClaims of a live cluster behind a fake API server: followed, read once, absent without noise."""

from collections.abc import Iterator

import pytest
import urllib3

from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer, Fault
from tests.builders.live_snapshots import cluster_of, put, until
from tests.builders.waiting import LIMIT_S
from trimtab.clients.live.cluster import LivePoolGroups
from trimtab.clients.live.single_read import read_once
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.common.kubernetes.errors import MissingPermissionError
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.v1 import plan_pb2

POOLS, CLAIMS = BY_KIND["NodePool"], BY_KIND["NodeClaim"]
GROUP = "default/m5.large/z1/on-demand"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        put(started, kp.pool_node("n1"), k8s.namespace("default"))
        yield started


@pytest.fixture
def karpenter(server: FakeApiServer) -> FakeApiServer:
    for kind in (POOLS, CLAIMS):
        server.define(kind.path, kind.kind)
    server.put_json(POOLS.path, kp.node_pool(limits={"cpu": "10"}, disruption={"budgets": [{"nodes": "1"}]}))
    server.put_json(CLAIMS.path, kp.node_claim("c1", node="n1"))
    return server


def api(server: FakeApiServer) -> Api:
    return Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))


def test_pools_of_a_cluster_that_is_read_once_are_groups_with_settings(karpenter: FakeApiServer) -> None:
    read = read_once(api(karpenter))
    assert [(group.id, group.target_size) for group in read.snapshot.node_groups] == [(GROUP, 1)]
    assert [one.resource for one in read.settings.planner.limits] == ["cpu"]
    assert read.not_permitted == ()


def test_without_the_kinds_a_cluster_has_no_such_groups_and_nothing_is_said(server: FakeApiServer) -> None:
    read = read_once(api(server))
    assert not read.snapshot.node_groups
    assert read.notes == ()
    assert not read.settings.ListFields()


def test_without_permission_pools_are_left_out_when_a_cluster_is_read_once(karpenter: FakeApiServer) -> None:
    for kind in (POOLS, CLAIMS):
        karpenter.fail(kind.path, Fault(status=403, reason="Forbidden"))
    read = read_once(api(karpenter))
    assert read.not_permitted == ("NodePool", "NodeClaim")
    assert not read.snapshot.node_groups


def test_who_follows_a_cluster_needs_the_permission(karpenter: FakeApiServer) -> None:
    karpenter.forbidden = {("nodepools", "watch")}
    with pytest.raises(MissingPermissionError) as caught:
        cluster_of(karpenter).start()
    assert caught.value.rules.splitlines() == [
        '- {apiGroups: ["karpenter.sh"], resources: [nodepools], verbs: [watch]}'
    ]


def test_pools_and_claims_are_followed_and_deltas_have_their_groups(karpenter: FakeApiServer) -> None:
    noted: list[str] = []
    with cluster_of(karpenter) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        pools = LivePoolGroups(cluster, noted.append)
        whole = cluster.next_update(list(pools.groups((), None))).update.snapshot
        assert whole is not None
        assert [(group.id, group.target_size) for group in whole.node_groups] == [(GROUP, 1)]
        assert whole.nodes[0].node_group == GROUP
        karpenter.put_json(CLAIMS.path, kp.node_claim("c2"))
        until(lambda: len(cluster.store.objects["NodeClaim"]) == 2)
        delta = cluster.next_update(list(pools.groups((), None))).update.delta
        assert delta is not None
        assert [(group.id, group.target_size) for group in delta.changed.node_groups] == [(GROUP, 2)]
        karpenter.remove(POOLS.path, "/default")
        until(lambda: not cluster.store.objects["NodePool"])
        gone = cluster.next_update(list(pools.groups((), None))).update.delta
        assert gone is not None
        assert list(gone.deleted_node_groups) == [GROUP]
    assert len(noted) == len(set(noted))


def test_budgets_and_limits_of_pools_complete_settings(karpenter: FakeApiServer) -> None:
    with cluster_of(karpenter) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        pools = LivePoolGroups(cluster, lambda _: None)
        pools.groups((), None)
        plain = plan_pb2.PlanSettings()
        assert not pools.settings(plain).HasField("replacement")
        assert [one.max_nodes for one in pools.settings(plain).planner.disruption_budgets] == ["1"]
        assert [one.maximum for one in pools.settings(plain).planner.limits] == [10_000]
