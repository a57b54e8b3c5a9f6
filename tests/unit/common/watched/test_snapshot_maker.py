"""A watcher makes the same snapshots of encoded objects as files do, at once and change by change."""

import random
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders import kubernetes as k8s
from tests.builders.capacity_buffers import buffer, template
from tests.builders.expanded_snapshot import applied, expand
from tests.builders.kubernetes_protobuf import encoded
from tests.builders.watched_objects import filled, from_files, raw, whole
from trimtab.common.kubernetes.errors import KubernetesError, MalformedAnswerError
from trimtab.common.kubernetes.kinds.nodes import NodeGroup
from trimtab.common.kubernetes.object_errors import ObjectError
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.common.objects import decode_objects
from trimtab.common.objects.build import Actuation, Eviction
from trimtab.common.objects.objects import Objects
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.watched_objects import WatchedObjects
from trimtab.k8s.v1 import core_pb2
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


HIGH = {"priorityClassName": "high"}


def priority_class(value: int) -> Json:
    """The priority class "high"."""
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": value}


STATUS: Json = {"status": {"replicas": 7, "conditions": []}}


def some_pods(seed: int, count: int = 60) -> list[Json]:
    """Return pods that differ in all fields that may differ within a workload, and in others."""
    chance = random.Random(seed)
    owners = [k8s.replica_set("web", 5), k8s.stateful_set("db", 3), k8s.daemon_set("agent", namespace="default")]
    built = []
    for i in range(count):
        owner = chance.choice([*owners, None])
        node = chance.choice(["", "n1", "n2"])
        claims = [f"data-{chance.randrange(4)}"] if chance.random() < 0.3 else []
        volumes: list[Json] = [{"name": f"kube-api-access-{i}", "projected": {"sources": []}}]
        if chance.random() < 0.2:
            volumes.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        if chance.random() < 0.2:
            volumes.append({"name": "tmp", "emptyDir": chance.choice([{}, {"medium": "Memory"}])})
        terms = chance.choice([
            None,
            k8s.node_affinity([("metadata.name", "In", [f"n{chance.randrange(3)}"])]),
            k8s.node_affinity([("metadata.name", "In", ["n1"]), ("zone", "In", ["a"])]),
            k8s.node_affinity([("metadata.name", "In", ["n1"])], [("metadata.name", "In", ["n2"])]),
            k8s.node_affinity([("metadata.name", "NotIn", ["n1"])]),
            k8s.anti_affinity(k8s.labelled(app="web")),
        ])  # fmt: skip
        spec: Json = chance.choice([{}, {}, {"hostUsers": False}, {"hostUsers": False, "hostNetwork": True}])
        annotations = {"cni/pod-ip": f"10.0.0.{i}"} | chance.choice([
            {},
            {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "tmp"},
            {"controller.kubernetes.io/pod-deletion-cost": str(chance.randrange(-3, 3))},
            {"kubernetes.io/config.mirror": "x"},
        ])  # fmt: skip
        built.append(
            k8s.pod(
                f"p{i}",
                cpu=chance.choice(["100m", "1", None]),
                node=node,
                labels={"app": chance.choice(["web", "db"]), "index": str(i)},
                annotations=annotations,
                owner=owner,
                affinity=terms,
                claims=claims,
                volumes=volumes,
                priority=chance.choice([None, 0, 1000]),
                spec=spec,
                deletion=chance.choice([None, None, "2026-01-02T00:00:00Z"]),
                phase=chance.choice([None, None, "Succeeded", "Failed"]),
                created=f"2026-01-01T00:00:{i % 60:02}Z",
            )
        )
    return [preempting(one, i) for i, one in enumerate(built)]


def preempting(pod: Json, number: int) -> Json:
    """Return the pod, nominated for a node or kept from preempting others by its number."""
    pod["status"] |= {"nominatedNodeName": "n1"} if number % 3 == 0 else {}
    pod["spec"] |= {"preemptionPolicy": "Never"} if number % 4 == 0 else {}
    return pod


def nominated(node: str) -> Json:
    """Return a pod that waits, nominated for a node."""
    found = k8s.pod("waits")
    found["status"]["nominatedNodeName"] = node
    return found


def test_a_nomination_alone_changes_the_row_of_its_pod() -> None:
    store = filled([*CLUSTER, nominated("n1"), k8s.pod("other", node="n1")])
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    store.put("Pod", [raw(nominated("n2"))])
    delta = maker.next_update([], None).delta
    assert delta is not None
    pods, strings = delta.changed.pods, delta.changed.strings
    assert pods.count == 1
    assert strings[int.from_bytes(pods.nominated_node[:4], "little")] == "n2"


def resized(pod: Json, cpu: str) -> Json:
    """Return the pod with a container that was given more than its spec requests."""
    amounts = {"cpu": cpu, "memory": "64Mi"}
    pod["status"]["containerStatuses"] = [
        {"name": "main", "resources": {"requests": amounts}, "allocatedResources": amounts}
    ]
    return pod


STORAGE = [
    k8s.storage_class(),
    k8s.persistent_volume("pv0", affinity=[{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]),
    k8s.persistent_volume_claim("data-0", volume="pv0", storage_class="standard"),
    k8s.persistent_volume_claim("data-1", storage_class="standard"),
    k8s.persistent_volume_claim("data-2", storage_class="none"),
    k8s.persistent_volume("old", source={"awsElasticBlockStore": {"volumeID": "vol-1"}}, labels={ZONE: "a"}),
    k8s.persistent_volume_claim("data-3", volume="old"),
    k8s.csi_node("n1", {"ebs.csi.aws.com": 25, "other": None}, migrated=["kubernetes.io/aws-ebs"]),
    k8s.csi_node("n2"),
    k8s.csi_driver(),
    k8s.persistent_volume("left"),
    k8s.volume_attachment("a0", "n1", "pv0"),
    k8s.volume_attachment("a1", "n1", "left"),
    k8s.volume_attachment("a2", "n2", "pv0"),
]
CLUSTER = [
    k8s.node("n1", zone="a", taints=["dedicated=x:NoSchedule"]),
    k8s.node("n2", zone="b", ready=False, extra={"nvidia.com/gpu": "1"}, status={"declaredFeatures": ["A", "B"]}),
    k8s.namespace("default", {"team": "a"}),
    k8s.namespace("kube-system"),
    k8s.replica_set("web", 5, current=0),
    k8s.replica_set("old", 0, current=0),
    k8s.stateful_set("db", 3, current=2),
    k8s.daemon_set("agent", namespace="default"),
    k8s.daemon_set("driver", template={"cpu": "1", "node_selector": {"gpu": "yes"}, "spec": HIGH}),
    priority_class(1000),
    template("chunk"),
    buffer("spare", podTemplateRef={"name": "chunk"}, replicas=2),
    buffer("wide", scalableRef={"apiGroup": "apps", "kind": "ReplicaSet", "name": "web"}, percentage=50),
    buffer("lost", podTemplateRef={"name": "gone"}, replicas=2),
    k8s.job("batch", active=2),
    k8s.pdb(min_available="50%"),
    k8s.pdb("other", 0, max_unavailable=1),
    *STORAGE,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_encoded_objects_give_the_bytes_that_files_give(seed: int) -> None:
    pods = some_pods(seed)
    pods += [resized(k8s.pod(f"resized-{i}", node="n1"), f"{200 * (i % 2) + 100}m") for i in range(4)]
    objects = [*CLUSTER, *pods]
    random.Random(seed).shuffle(objects)
    assert whole(filled(objects)) == from_files(objects)


def test_pods_that_differ_only_in_what_passes_through_share_their_work() -> None:
    store = WatchedObjects()
    for i in range(50):
        pin = k8s.node_affinity([("metadata.name", "In", [f"n{i}"])])
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"c{i}"}}
        cost = {"controller.kubernetes.io/pod-deletion-cost": str(i)}
        one = k8s.pod(f"p{i}", node=f"n{i}", labels={"i": str(i)}, volumes=[claim], affinity=pin, annotations=cost)
        store.put("Pod", [encoded(one).SerializeToString()])
    assert len(store._reader._rows) == 1
    assert {row.pinned_node for row in store.pods.values()} == {f"n{i}" for i in range(50)}
    assert {row.deletion_cost for row in store.pods.values()} == set(range(50))


@pytest.mark.parametrize("refused_share", [0.0, 0.4])
def test_each_delta_leads_from_the_last_snapshot_that_arrived_to_the_next(refused_share: float) -> None:
    chance, refuse = random.Random(7), random.Random(8)
    groups = [group("a", {"topology.kubernetes.io/zone": "a"}), group("b", {"topology.kubernetes.io/zone": "b"})]
    store, present = filled(CLUSTER), {(o["kind"], o["metadata"]["name"]): o for o in CLUSTER}
    maker = SnapshotMaker(store)
    first = maker.next_update(groups, None).snapshot
    assert first is not None
    tables, pool = expand(first), {(o["kind"], o["metadata"]["name"]): o for o in [*CLUSTER, *some_pods(3)]}
    for step in range(60):
        for _ in range(chance.randrange(4)):
            churn(chance, store, present, pool)
        if step == 30:
            groups = [groups[0], group("c", {"topology.kubernetes.io/zone": "b"})]
        if step % 7 == 3:
            groups = [group("a", {ZONE: "a"}, chance.randrange(9)), *groups[1:]]
        update = maker.next_update(groups, None)
        assert update.delta is not None
        if refuse.random() < refused_share:
            maker.requeue()
            continue
        tables = applied(tables, update.delta)
        fresh = pb.ClusterSnapshot.FromString(whole(store, groups))
        assert tables == expand(fresh), step


def churn(chance: random.Random, store: WatchedObjects, present: dict[Any, Json], pool: dict[Any, Json]) -> None:
    """Add, change or remove one object."""
    key = chance.choice(sorted(pool))
    kind = key[0]
    if key in present and chance.random() < 0.4:
        store.drop(kind, raw(present.pop(key)))
        return
    one = dict(pool[key])
    if kind == "Node":
        one = k8s.node(key[1], zone=chance.choice(["a", "b", "c"]), cpu=chance.choice(["2", "4"]))
    elif kind == "CSINode":
        one = k8s.csi_node(key[1], {"ebs.csi.aws.com": 9}, migrated=chance.choice([[], ["kubernetes.io/aws-ebs"]]))
    elif kind == "PersistentVolume":
        one = chance.choice([one, k8s.persistent_volume(key[1], handle=chance.choice(["h0", "h1"]))])
    elif kind == "VolumeAttachment":
        one = k8s.volume_attachment(key[1], chance.choice(["n1", "n2"]), chance.choice(["pv0", "old", "left"]))
    elif kind == "CSIDriver":
        one = k8s.csi_driver(key[1], required=chance.choice([True, False, None]))
    elif kind == "PersistentVolumeClaim":
        one = k8s.persistent_volume_claim(key[1], volume=chance.choice(["", "pv0", "old"]), storage_class="standard")
    elif kind == "CapacityBuffer":
        one = buffer(key[1], podTemplateRef={"name": "chunk"}, replicas=chance.randrange(3))
    elif kind == "ReplicaSet":
        one = k8s.replica_set(key[1], chance.choice([0, 3]), current=chance.choice([0, 3]))
    elif kind == "DaemonSet":
        one = k8s.daemon_set(key[1], template={"cpu": chance.choice(["1", "2"]), "spec": HIGH})
    elif kind == "PriorityClass":
        one = priority_class(chance.choice([500, 1000]))
    elif kind == "Pod":
        other = chance.choice([o for (k, _), o in sorted(pool.items()) if k == "Pod"])
        one = {**other, "metadata": {**other["metadata"], "name": key[1], "uid": f"uid-{key[1]}"}}
    present[key] = one
    store.put(kind, [raw(one)])


def test_a_new_priority_class_counts_for_pods_that_a_daemon_set_has_yet_to_make() -> None:
    agent = k8s.daemon_set(template={"cpu": "1", "spec": HIGH})
    store = filled([agent])
    maker = SnapshotMaker(store)
    first = maker.next_update([], None).snapshot
    assert first is not None
    (before,) = expand(first)["owners"].values()
    assert before.pod_template.spec.priority == 0
    store.put("PriorityClass", [raw(priority_class(1000))])
    delta = maker.next_update([], None).delta
    assert delta is not None
    (after,) = expand(delta.changed)["owners"].values()
    assert after.pod_template.spec.priority == 1000
    assert applied(expand(first), delta) == expand(pb.ClusterSnapshot.FromString(whole(store)))
    store.drop("DaemonSet", raw(agent))
    gone = maker.next_update([], None).delta
    assert gone is not None
    assert list(gone.deleted_owners) == [agent["metadata"]["uid"]]


def test_what_is_written_into_the_status_of_a_buffer_changes_nothing() -> None:
    store = filled(CLUSTER)
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    store.put("CapacityBuffer", [raw(next(one for one in CLUSTER if one["kind"] == "CapacityBuffer") | STATUS)])
    assert maker.next_update([], None).is_empty


def test_a_buffer_with_a_field_of_the_wrong_type_is_named_and_the_others_count() -> None:
    odd = buffer("odd", replicas={"many": 3})
    snapshot = SnapshotMaker(filled([*CLUSTER, odd])).next_update([], None).snapshot
    assert snapshot is not None
    problems = {one.object: one.problem for one in snapshot.slack_requests.requests}
    assert "podTemplateRef" in problems["CapacityBuffer/default/odd"]
    assert problems["CapacityBuffer/default/spare"] == ""
    with pytest.raises(MalformedAnswerError):
        filled([]).put("CapacityBuffer", [b'{"spec": {}}'])


def test_a_group_whose_size_alone_has_changed_is_sent() -> None:
    maker = SnapshotMaker(filled(CLUSTER))
    maker.next_update([group("a", {ZONE: "a"}, 1)], None)
    update = maker.next_update([group("a", {ZONE: "a"}, 4)], None)
    assert update.delta is not None
    assert [(one.id, one.target_size) for one in update.delta.changed.node_groups] == [("a", 4)]
    assert maker.next_update([group("a", {ZONE: "a"}, 4)], None).is_empty


def group(name: str, labels: dict[str, str], size: int | None = None) -> NodeGroup:
    """A node group by labels."""
    built: NodeGroup = decode_objects([k8s.node_group(name, target=size, selector=labels)]).of("NodeGroup")[0]
    return built


def test_a_cluster_without_change_gives_an_empty_delta_and_builds_nothing() -> None:
    objects = [*CLUSTER, *some_pods(1)]
    store = filled(objects)
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    revision = store.revision
    for one in objects:
        store.put(one["kind"], [raw(one)])
    update = maker.next_update([], None)
    assert store.revision == revision
    assert update.is_empty
    assert update.delta == pb.SnapshotDelta(changed=pb.ClusterSnapshot())


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(k8s.csi_node("n1"), id="a node hands nothing over any more"),
        pytest.param(k8s.csi_node("n2", migrated=["kubernetes.io/aws-ebs"]), id="another node hands over"),
        pytest.param(k8s.node("n3"), id="a node comes"),
    ],
)
def test_a_delta_tells_where_in_tree_volumes_can_be_reached_now(changed: Json) -> None:
    objects = [*CLUSTER, k8s.pod("a", claims=["data-3"]), k8s.pod("b", claims=["data-0"])]
    store = filled(objects)
    maker = SnapshotMaker(store)
    first = maker.next_update([], None).snapshot
    assert first is not None
    store.put(changed["kind"], [raw(changed)])
    delta = maker.next_update([], None).delta
    assert delta is not None
    assert applied(expand(first), delta) == expand(pb.ClusterSnapshot.FromString(whole(store)))


def test_a_list_forgets_what_it_did_not_have() -> None:
    objects = [k8s.pod("a"), k8s.pod("b"), k8s.node("n1")]
    store = filled(objects)
    store.listing("Pod")
    store.put("Pod", [encoded(objects[1]).SerializeToString()])
    store.listed("Pod")
    assert list(store.pods) == [("default", "b")]
    assert whole(store) == from_files(objects[1:])


def test_deletions_and_evictions_stand_in_the_snapshot_and_change_it_when_they_change() -> None:
    store = filled([*CLUSTER, k8s.pod("gone", node="n1", labels={"app": "web"}), k8s.pod("stays", node="n1")])
    row = store.pods["default", "gone"]
    store.drop("Pod", core_pb2.Pod(metadata={"namespace": "default", "name": "gone"}).SerializeToString())
    deletions = [pb.DeletionInProgress(node="n2", node_group="g", drain=True, start_time=Timestamp(seconds=5))]
    actuation = Actuation(deletions, [Eviction(row, Timestamp(seconds=9))])
    maker = SnapshotMaker(store)
    first = maker.next_update([], actuation).snapshot
    assert first is not None
    (namespace, name, _, spec, labels, *_), *none = expand(first)["evictions"].values()
    assert (namespace, name, labels, none) == ("default", "gone", (("app", "web"),), [])
    assert spec == expand(first)["pods"]["default/stays"][3]
    assert maker.next_update([], actuation).is_empty
    after = maker.next_update([], Actuation()).delta
    assert after is not None
    assert [applied(expand(first), after)[name] for name in ("deletions", "evictions")] == [{}, {}]


def test_lost_deletions_are_reported_again() -> None:
    store = filled(CLUSTER)
    deletions = [pb.DeletionInProgress(node="n2", node_group="g", drain=True, start_time=Timestamp(seconds=5))]
    maker = SnapshotMaker(store)
    maker.next_update([], Actuation())
    told = maker.next_update([], Actuation(deletions, [])).delta
    maker.requeue()
    assert maker.next_update([], Actuation(deletions, [])).delta == told
    assert maker.next_update([], Actuation(deletions, [])).is_empty


def test_a_whole_snapshot_that_did_not_arrive_is_made_whole_again() -> None:
    maker = SnapshotMaker(filled(CLUSTER))
    maker.next_update([], None)
    maker.requeue()
    assert maker.next_update([], None).snapshot is not None


def test_an_object_that_cannot_be_used_is_named_until_it_is_mended_or_gone() -> None:
    bad = k8s.pod("bad")
    bad["spec"]["volumes"] = [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]
    store = filled([k8s.pod("good")])
    store.problems["Pod", ("default", "bad")] = "Pod default/bad: spec: it is broken; mend it"
    with pytest.raises(KubernetesError, match="default/bad"):
        SnapshotMaker(store).next_update([], None)
    store.put("Pod", [encoded(bad).SerializeToString()])
    assert expand(pb.ClusterSnapshot.FromString(whole(store)))["pods"].keys() == {"default/bad", "default/good"}


def test_a_node_of_two_groups_is_named_with_both() -> None:
    store = filled([k8s.node("n1", zone="a")])
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    groups = [group("a", {"topology.kubernetes.io/zone": "a"}), group("b", {"kubernetes.io/hostname": "n1"})]
    with pytest.raises(ObjectError, match="NodeGroup b: spec: node n1 belongs to this group and to a"):
        maker.next_update(groups, None)


def test_changes_from_which_no_snapshot_can_be_made_come_again_with_the_next_ones() -> None:
    store = filled([k8s.node("n1"), k8s.pod("p1", node="n1")])
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    store.put("Pod", [raw(k8s.pod("p2", node="n1"))])
    same = [group("a", {"kubernetes.io/hostname": "n1"}), group("b", {"kubernetes.io/hostname": "n1"})]
    with pytest.raises(ObjectError):
        maker.next_update(same, None)
    delta = maker.next_update(same[:1], None).delta
    assert delta is not None
    assert delta.changed.pods.names == b"p2"
    assert [one.id for one in delta.changed.node_groups] == ["a"]


def test_objects_of_kinds_never_seen_count_as_none_at_all() -> None:
    assert Objects(given=set(WATCHED)).of("Pod") == []
    assert whole(WatchedObjects()) == from_files([])
