"""What completes the node groups of rounds on a live cluster, for all commands that make them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer
from tests.builders.live_snapshots import cluster_of, put
from tests.builders.waiting import LIMIT_S
from trimtab.clients.cli.live.last_cluster import completed
from trimtab.clients.cli.offer_files import read_offers
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.v1 import plan_pb2

POOLS, CLAIMS = BY_KIND["NodePool"], BY_KIND["NodeClaim"]
GROUP = "default/m5.large/z1/on-demand"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        put(started, kp.pool_node("n1"), k8s.namespace("default"))
        yield started


def settings() -> RoundSettings:
    return RoundSettings("c", (plan_pb2.Decision.SCALE_DOWN,), plan_pb2.PlanSettings(), (), dry_run=True)


@pytest.mark.parametrize("labels", [pytest.param((), id="steer and record"), pytest.param(None, id="run and top")])
def test_node_pools_become_groups_and_settings_whether_or_not_labels_may(
    server: FakeApiServer, labels: tuple[str, ...] | None
) -> None:
    for kind in (POOLS, CLAIMS):
        server.define(kind.path, kind.kind)
    server.put_json(POOLS.path, kp.node_pool(limits={"cpu": "10"}, disruption={"budgets": [{"nodes": "1"}]}))
    server.put_json(CLAIMS.path, kp.node_claim("c1", node="n1"))
    with cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        made = completed(settings(), cluster, lambda *_: None, labels)
        assert [group.metadata.name for group in made.complete_groups((), None)] == [GROUP]
        assert [one.resource for one in made.complete_settings(plan_pb2.PlanSettings()).planner.limits] == ["cpu"]


def test_offers_are_the_machines_that_pools_may_have(server: FakeApiServer, tmp_path: Path) -> None:
    for kind in (POOLS, CLAIMS):
        server.define(kind.path, kind.kind)
    server.put_json(POOLS.path, kp.node_pool())
    file = tmp_path / "offers.csv"
    file.write_text("instance_type,cpu,memory_gib,zone,price\nm5.large,2,8,z1,0.1\nm5.xlarge,4,16,z1,0.2\n")
    with cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        made = completed(settings(), cluster, lambda *_: None, offers=read_offers(file).offers)
        names = [group.metadata.name for group in made.complete_groups((), None)]
        assert names == [GROUP, "default/m5.xlarge/z1/on-demand"]


def test_without_node_pools_labels_make_groups_and_that_is_noted_once(server: FakeApiServer) -> None:
    told: list[str] = []
    with cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        made = completed(settings(), cluster, lambda kind, _: told.append(kind), ("node.kubernetes.io/instance-type",))
        names = [[group.metadata.name for group in made.complete_groups((), None)] for _ in range(2)]
        assert names == [["m5.large"]] * 2
        assert told == ["groups_by_label"]
