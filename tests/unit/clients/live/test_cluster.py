"""A whole cluster behind a fake API server: when it is known, and the errors if it cannot be. An open watch is ended
from any thread, at any time.
"""

import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import urllib3
from google.protobuf.timestamp_pb2 import Timestamp
from structlog.testing import capture_logs

from tests.builders import kubernetes as k8s
from tests.builders.api_server import FakeApiServer, Fault
from tests.builders.capacity_buffers import buffer, template
from tests.builders.expanded_snapshot import expand
from tests.builders.live_snapshots import QUICK, cluster_of, put, until
from tests.builders.waiting import LIMIT_S
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.live.lists import WatchStream
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import Connection
from trimtab.common.kubernetes.errors import KubernetesError, MissingPermissionError
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.common.objects import decode_objects
from trimtab.common.objects.dictionary import Dictionary
from trimtab.common.objects.node_groups import group_row
from trimtab.common.watched.cloud_groups import cloud_groups
from trimtab.common.watched.watched_objects import DEVICES, GROUPS_OF_PODS, POOLS
from trimtab.v1 import actuator_pb2, snapshot_pb2


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        put(started, k8s.node("n1"), k8s.namespace("default"), k8s.replica_set("web", 2))
        put(started, *k8s.pods_of(k8s.replica_set("web", 2), 2, node="n1"))
        yield started


@pytest.fixture
def cluster(server: FakeApiServer) -> Iterator[LiveCluster]:
    with cluster_of(server) as started:
        assert started.wait_until_listed(LIMIT_S)
        yield started


def test_a_cluster_is_known_once_every_kind_is_listed(cluster: LiveCluster, server: FakeApiServer) -> None:
    snapshot = cluster.next_update([]).update.snapshot
    assert snapshot is not None
    assert expand(snapshot)["pods"].keys() == {"default/web-0", "default/web-1"}
    put(server, k8s.pod("new"))
    until(lambda: ("default", "new") in cluster.store.pods)
    delta = cluster.next_update([]).update.delta
    assert delta is not None
    assert expand(delta.changed)["pods"].keys() == {"default/new"}


def test_before_it_is_known_no_snapshot_is_made(server: FakeApiServer) -> None:
    server.fail("/api/v1/nodes", *[Fault(status=500)] * 1000)
    with cluster_of(server) as cluster:
        until(lambda: cluster.missing == ["Node"] and "500" in cluster.troubles.get("Node", ""))
        assert not cluster.wait_until_listed(0.01)
        with pytest.raises(KubernetesError, match="Node still to be listed"):
            cluster.next_update([])


def test_all_that_lacks_in_permissions_is_said_at_once_as_rules(server: FakeApiServer) -> None:
    server.forbidden = {("pods", "watch"), ("nodes", "list"), ("nodes", "watch"), ("jobs", "list"), ("jobs", "watch")}
    with pytest.raises(MissingPermissionError) as caught:
        cluster_of(server).start()
    assert caught.value.rules.splitlines() == [
        '- {apiGroups: ["batch"], resources: [jobs], verbs: [list, watch]}',
        '- {apiGroups: [""], resources: [nodes], verbs: [list, watch]}',
        '- {apiGroups: [""], resources: [pods], verbs: [watch]}',
    ]


def test_a_permission_that_is_taken_away_later_is_said_too(server: FakeApiServer) -> None:
    server.fail("/api/v1/nodes", Fault(status=403, reason="Forbidden"))
    with cluster_of(server) as cluster, pytest.raises(MissingPermissionError, match="nodes"):
        cluster.wait_until_listed(LIMIT_S)


def test_a_built_in_kind_that_the_server_does_not_know_for_a_moment_is_listed_again(server: FakeApiServer) -> None:
    put(server, k8s.pdb("web", 1, labels={"app": "web"}))
    server.fail("/apis/policy/v1/poddisruptionbudgets", Fault(status=404, reason="NotFound"))
    with cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        seen = cluster.next_update([])
        assert "PodDisruptionBudget" not in seen.absent
        assert seen.update.snapshot is not None
        assert [one.name for one in seen.update.snapshot.pod_disruption_budgets] == ["web"]


def evicted(name: str, uid: str, owner: str = "") -> actuator_pb2.Eviction:
    time_ = Timestamp(seconds=50)
    return actuator_pb2.Eviction(namespace="default", name=name, uid=uid, owner_uid=owner, evict_time=time_)


def test_an_evicted_pod_is_reported_as_it_was_or_as_its_siblings_are(
    cluster: LiveCluster, server: FakeApiServer
) -> None:
    web0, web1 = cluster.store.pods["default", "web-0"], cluster.store.pods["default", "web-1"]
    server.remove("/api/v1/pods", "default/web-0")
    until(lambda: ("default", "web-0") not in cluster.store.pods)
    status = actuator_pb2.ActuatorStatus(
        recent_evictions=[
            evicted("web-0", web0.uid),
            evicted("web-1", web1.uid),
            evicted("never-seen", "u3", web1.owner),
            evicted("stranger", "u4", "nobody"),
        ]
    )
    seen = cluster.next_update([], status)
    assert seen.update.snapshot is not None
    evictions = expand(seen.update.snapshot)["evictions"].values()
    assert [row[1:3] for row in evictions] == [("never-seen", "u3"), ("web-0", web0.uid), ("web-1", web1.uid)]
    assert all(spec.requests and owner == web1.owner for _, _, _, spec, _, owner, _ in evictions)
    assert seen.notes == ["no room is reserved for 1 evicted pods that were never seen: default/stranger"]


def test_when_all_pods_of_an_owner_are_gone_the_last_of_them_stands_for_the_others(
    cluster: LiveCluster, server: FakeApiServer
) -> None:
    owner = cluster.store.pods["default", "web-0"].owner
    for name in ("web-0", "web-1"):
        server.remove("/api/v1/pods", f"default/{name}")
    until(lambda: not cluster.store.pods)
    assert (
        cluster.next_update([], actuator_pb2.ActuatorStatus(recent_evictions=[evicted("x", "u9", owner)])).notes == []
    )


def test_sizes_of_node_groups_are_those_of_the_cloud() -> None:
    declared = decode_objects([k8s.node_group("a", 0, 5, selector={"pool": "a"}, price=1.5)]).of("NodeGroup")
    status = actuator_pb2.ActuatorStatus()
    status.node_groups.add(id="a", min_size=1, max_size=9, target_size=4, last_deletion_time=Timestamp(seconds=60))
    status.node_groups.add(id="b", max_size=3)
    first, second = cloud_groups(declared, status)
    assert first.spec is not None
    assert (first.spec.min_size, first.spec.max_size, first.spec.target_size, first.spec.price) == (1, 9, 4, 1.5)
    assert first.spec.node_selector == {"pool": "a"}
    assert first.status is not None
    assert (first.status.last_deletion_time, first.status.last_failure_time) == (datetime.fromtimestamp(60, UTC), None)
    assert second.metadata is not None
    assert second.metadata.name == "b"


def test_a_back_off_of_the_actuator_goes_into_the_snapshot() -> None:
    status = actuator_pb2.ActuatorStatus()
    status.node_groups.add(
        id="a",
        max_size=9,
        health=snapshot_pb2.NodeGroupHealth.BACKED_OFF,
        backoff_until=Timestamp(seconds=90),
    )
    (group,) = cloud_groups([], status)
    row = group_row(group, 0, Dictionary())
    assert (row.health, row.backoff_until.seconds) == (snapshot_pb2.NodeGroupHealth.BACKED_OFF, 90)


def test_a_health_that_does_not_exist_is_refused_by_its_field() -> None:
    group = k8s.node_group("a", 0, 5) | {"status": {"health": "Fine"}}
    (read,) = decode_objects([group]).of("NodeGroup")
    with pytest.raises(FieldError, match=r"status\.health.*BackedOff"):
        group_row(read, 0, Dictionary())


def test_odd_objects_are_reported_once_as_for_files(cluster: LiveCluster, server: FakeApiServer) -> None:
    silent = k8s.node("silent")
    del silent["status"]["allocatable"], silent["status"]["capacity"]
    put(server, silent, k8s.pod("huge", cpu="99999999999999999"))
    until(lambda: ("default", "huge") in cluster.store.pods and ("", "silent") in cluster.store.objects["Node"])
    absent = decode_objects([k8s.node_group("a", 0, 5, nodes=["n1", "gone"])]).of("NodeGroup")
    notes = cluster.next_update(absent).notes
    assert [note.split(";")[0] for note in notes] == [
        "Pod default/huge and those like it: spec.containers request 9223372036854775807 of cpu",
        "NodeGroup a names 1 node not in the input: gone",
        "1 node has no status.allocatable, so nothing fits there: silent",
    ]
    assert cluster.next_update(absent).notes == []
    other = silent | {"metadata": silent["metadata"] | {"name": "other"}}
    put(server, other)
    until(lambda: ("", "other") in cluster.store.objects["Node"])
    assert cluster.next_update(absent).notes == ["1 node has no status.allocatable, so nothing fits there: other"]


def test_of_very_many_notes_some_are_shown(cluster: LiveCluster, server: FakeApiServer) -> None:
    put(server, *(k8s.pod(f"huge-{i}", cpu=f"{99999999999999999 + i}") for i in range(30)))
    until(lambda: len(cluster.store.pods) == 32)
    notes = cluster.next_update([]).notes
    assert (len(notes), notes[-1]) == (21, "and 10 more notes of this kind")


def test_objects_that_no_snapshot_can_be_made_of_are_a_failure_to_be_waited_out(
    cluster: LiveCluster, server: FakeApiServer
) -> None:
    groups = decode_objects([k8s.node_group(name, 0, 5, nodes=["n1"]) for name in "ab"]).of("NodeGroup")
    for _ in range(2):
        with pytest.raises(KubernetesError, match="node n1 belongs to this group and to a"):
            cluster.next_update(groups)
    assert cluster.next_update(groups[:1]).update.snapshot is not None


def test_a_group_of_the_actuator_that_is_not_declared_is_reported_once(cluster: LiveCluster) -> None:
    declared = decode_objects([k8s.node_group("a", 0, 5, selector={"pool": "a"})]).of("NodeGroup")
    status = actuator_pb2.ActuatorStatus()
    for name, count in (("a", 3), ("b", 2), ("empty", 0)):
        status.node_groups.add(id=name, max_size=9, instance_count=count)
    (note,) = cluster.next_update(declared, status).notes
    assert note.startswith("node group b is the actuator's, but no NodeGroup of that name was given")
    assert cluster.next_update(declared, status).notes == []


def refusal(cluster: LiveCluster) -> str:
    """Return why no snapshot is made; "" = one is."""
    try:
        cluster.next_update([])
    except KubernetesError as error:
        return str(error)
    return ""


def test_over_a_cluster_that_can_no_longer_be_followed_nothing_is_decided(server: FakeApiServer) -> None:
    api = Api(Connection(server.url, urllib3.PoolManager(maxsize=32), lambda: ""))
    with LiveCluster(api, replace(QUICK, silence_s=0.5, max_stale_s=3.0)) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        until(lambda: not refusal(cluster))
        server.fail("/api/v1/nodes", *[Fault(status=500)] * 100_000)
        server.cut_watches()
        until(lambda: re.match(r"nodes could not be followed for .* 500", refusal(cluster)) is not None)
        assert "Node" in cluster.troubles
        server.faults.clear()
        until(lambda: not refusal(cluster) and not cluster.troubles)


def test_over_a_cluster_whose_watches_are_open_but_silent_nothing_is_decided(server: FakeApiServer) -> None:
    api = Api(Connection(server.url, urllib3.PoolManager(maxsize=32), lambda: ""))
    with LiveCluster(api, replace(QUICK, max_stale_s=0.5)) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        text = "could not be followed for .* s: its watch is open, but nothing arrives, not even a bookmark"
        until(lambda: re.search(text, refusal(cluster)) is not None)
        assert not cluster.troubles


def test_a_status_that_is_as_before_is_not_read_again(cluster: LiveCluster, server: FakeApiServer) -> None:
    def status(name: str) -> actuator_pb2.ActuatorStatus:
        return actuator_pb2.ActuatorStatus(recent_evictions=[evicted(name, "u", owner)])

    owner = cluster.store.pods["default", "web-0"].owner
    first = cluster.next_update([], status("gone")).update.snapshot
    read = cluster._last_read
    assert first is not None
    assert cluster.next_update([], status("gone")).update.is_empty
    assert cluster._last_read is read
    other = cluster.next_update([], status("other")).update.delta
    assert other is not None
    assert [one.name for one in other.changed.actuation_status.recent_evictions] == ["other"]


def test_annotated_workloads_ask_for_slack_with_the_snapshot_and_with_later_deltas(
    cluster: LiveCluster, server: FakeApiServer
) -> None:
    update = cluster.next_update([]).update.snapshot
    assert update is not None
    assert not update.HasField("slack_requests")
    made = k8s.deployment("api", 4, metadata={"annotations": {"trimtab.dev/slack": "50%"}})
    made["spec"]["template"] = {
        "metadata": {"labels": {"app": "api"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]},
    }
    put(server, made)
    until(lambda: ("default", "api") in cluster.store.objects["Deployment"])
    delta = cluster.next_update([]).update.delta
    assert delta is not None
    (found,) = delta.changed.slack_requests.requests
    assert (found.object, found.amount, found.scale) == ("Deployment/default/api", "50%", 4)
    put(server, k8s.replica_set("other", 1))
    until(lambda: ("default", "other") in cluster.store.objects["ReplicaSet"])
    delta = cluster.next_update([]).update.delta
    assert delta is not None
    assert not delta.changed.HasField("slack_requests")


BUFFERS = WATCHED["CapacityBuffer"]
LACKED = {"CapacityBuffer", "ProvisioningRequest", *POOLS, *DEVICES, *GROUPS_OF_PODS}


def asked(cluster: LiveCluster) -> dict[str, int]:
    """Return the buffers' replicas in a whole snapshot."""
    cluster.forget()
    snapshot = cluster.next_update([]).update.snapshot
    assert snapshot is not None
    return {one.object: one.replicas for one in snapshot.slack_requests.requests}


def test_without_the_kind_there_are_no_buffers_which_is_not_a_note(cluster: LiveCluster) -> None:
    seen = cluster.next_update([])
    assert (seen.absent, seen.notes) == (tuple(sorted(LACKED)), [])
    assert asked(cluster) == {}


def test_only_buffers_requests_devices_pod_groups_and_pools_of_karpenter_are_missing_in_some_clusters() -> None:
    assert {kind for kind, one in WATCHED.items() if one.is_custom} == LACKED


def test_a_missing_kind_that_clusters_may_lack_is_no_warning(server: FakeApiServer) -> None:
    api = Api(Connection(server.url, urllib3.PoolManager(), lambda: ""))
    with capture_logs() as logged, LiveCluster(api, QUICK, resources=[BUFFERS]) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        assert cluster.absent == ("CapacityBuffer",)
    assert [one for one in logged if one["log_level"] == "warning"] == []


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_buffers_are_followed_in_the_version_that_the_server_has(server: FakeApiServer, version: str) -> None:
    path = BUFFERS._replace(api_versions=(f"{BUFFERS.group}/{version}",)).path
    server.define(path, "CapacityBuffer")
    server.put_json(path, buffer("spare", podTemplateRef={"name": "chunk"}, replicas=2))
    put(server, template("chunk"))
    with cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        assert asked(cluster) == {"CapacityBuffer/default/spare": 2}
        assert "CapacityBuffer" not in cluster.next_update([]).absent
        server.put_json(path, buffer("spare", podTemplateRef={"name": "chunk"}, replicas=5))
        until(lambda: asked(cluster) == {"CapacityBuffer/default/spare": 5})
        server.remove(path, "default/spare")
        until(lambda: asked(cluster) == {})


def test_a_kind_that_is_defined_later_is_found(server: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.clients.live.cluster.PAUSE_S", 0.01)
    with cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        assert cluster.next_update([]).absent
        server.put_json(BUFFERS.path, buffer("late", podTemplateRef={"name": "chunk"}, replicas=1))
        server.define(BUFFERS.path, "CapacityBuffer")
        until(lambda: "CapacityBuffer" not in cluster.absent)
        # Its PodTemplate is missing, which the request reports.
        assert asked(cluster) == {"CapacityBuffer/default/late": 0}


@pytest.mark.parametrize("is_closed_before", [False, True], ids=["while it is open", "once its socket is closed"])
def test_a_watch_can_be_ended_whether_its_reader_has_closed_the_connection_or_not(is_closed_before: bool) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        response = urllib3.HTTPResponse(preload_content=False, sock_shutdown=ours.shutdown, connection=ours)
        if is_closed_before:
            ours.close()
        stream = WatchStream(response, 0.0, lambda _: iter(()))
        stream.close()
        assert list(stream) == []
