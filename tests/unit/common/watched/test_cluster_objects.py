"""Objects as they come in requests lead to the snapshot that the same objects in a file have."""

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trimtab.clients
from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders.kubernetes_protobuf import encoded, wrap, wrapped
from tests.builders.object_door import Json, Key, by_identity, changes, from_objects, reserve_any, texts
from tests.builders.random_node_pools import random_pool_objects
from tests.builders.random_objects import random_objects
from trimtab.common.kubernetes.object_errors import InvalidInputError, ObjectError
from trimtab.common.watched.cluster_objects import ClusterObjects
from trimtab.common.watched.received_objects import MOST_OBJECT_BYTES, ObjectReader, SharedParts
from trimtab.k8s.v1 import meta_pb2
from trimtab.planner.snapshot.checks import SnapshotError
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.planner.snapshot.delta import apply_delta
from trimtab.v1 import actuator_pb2, plan_pb2

RECORDINGS = Path(trimtab.clients.__path__[0]) / "data" / "recordings"
REFUSED = (InvalidInputError, SnapshotError)


class Sent:
    """A cluster that is sent as objects, and its snapshot after the last request."""

    def __init__(self) -> None:
        self.cluster = ClusterObjects()
        self.snapshot: Snapshot | None = None

    def send(
        self,
        put: list[Json],
        delete: list[Json] | None = None,
        status: actuator_pb2.ActuatorStatus | None = None,
        *,
        is_repeated: bool = False,
    ) -> Snapshot:
        """Apply changes; return the snapshot."""
        update = self.cluster.update(changes(put, delete or []), status, is_repeated=is_repeated).update
        if update.snapshot is not None:
            self.snapshot = canonicalize(update.snapshot)
        elif not update.is_empty:
            assert self.snapshot is not None
            assert update.delta is not None
            self.snapshot = apply_delta(self.snapshot, update.delta)
        assert self.snapshot is not None
        return self.snapshot


def outcome(objects: list[Json]) -> str:
    """Return the version of objects from a file, or why they are refused."""
    try:
        return canonicalize(from_objects(objects).snapshot).version
    except REFUSED as error:
        return str(error)


def machine_offer(name: str, price: float, **spec: object) -> Json:
    """Return an offering of a type in zone z1."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "58"}
    given = {"instanceType": name, "zone": "z1", "capacity": amounts, "allocatable": amounts | {"cpu": "3900m"}}
    return {
        "apiVersion": "trimtab.dev/v1",
        "kind": "MachineOffer",
        "metadata": {"name": name},
        "spec": given | {"price": price} | spec,
    }


def sent_outcome(sent: Sent, put: list[Json], delete: list[Json] | None = None) -> str:
    """Return the version after a request, or why it is refused."""
    try:
        return sent.send(put, delete).version
    except REFUSED as error:
        return str(error)


def objects_of(seed: int) -> list[Json]:
    """Return a random cluster, every third with NodePools."""
    return random_pool_objects(seed) if seed % 3 == 0 else random_objects(seed)


def changed(cluster: dict[Key, Json], draw: random.Random) -> dict[Key, Json]:
    """Return a cluster of which some objects are gone, and some are those of another one."""
    left = {key: one for key, one in cluster.items() if draw.random() > 0.2}
    other = by_identity(objects_of(draw.randrange(10**6)))
    return left | {key: one for key, one in other.items() if draw.random() < 0.3}


def check_changes(seed: int, steps: int = 3) -> None:
    """Compare a cluster that is sent as changes with the same cluster from a file, step by step."""
    sent, draw = Sent(), random.Random(seed)
    cluster = by_identity(objects_of(seed))
    assert sent_outcome(sent, list(cluster.values())) == outcome(list(cluster.values()))
    for _ in range(steps if sent.snapshot is not None else 0):
        now = changed(cluster, draw)
        put = [one for key, one in now.items() if cluster.get(key) != one]
        found = sent_outcome(sent, put, [one for key, one in cluster.items() if key not in now])
        assert found == outcome(list(now.values()))
        if sent.snapshot is not None and found == sent.snapshot.version:
            cluster = now
            asked = from_objects(list(now.values())).settings or plan_pb2.PlanSettings()
            assert sent.cluster.settings(plan_pb2.PlanSettings(), None) == asked


@given(st.integers(0, 10**6))
def test_objects_and_changes_lead_to_the_snapshot_of_the_same_objects_in_a_file(seed: int) -> None:
    check_changes(seed)


@pytest.mark.ci
@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 200, 50)], ids=str)
def test_two_hundred_clusters_and_their_changes_lead_to_the_snapshots_of_files(seeds: range) -> None:
    for seed in seeds:
        check_changes(seed, 5)


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*.json.gz")), ids=lambda path: path.stem)
def test_a_real_cluster_leads_to_the_snapshot_of_its_file(path: Path) -> None:
    objects = json.loads(gzip.decompress(path.read_bytes()))["items"]
    assert Sent().send(objects).version == outcome(objects)


def test_repeating_the_last_request_leads_to_the_same_snapshot_and_so_does_another_one_in_its_place() -> None:
    sent, node = Sent(), k8s.node("n1")
    sent.send([node, k8s.pod("p1", node="n1")])
    second = sent.send([k8s.pod("p2", node="n1")])
    assert sent.send([k8s.pod("p2", node="n1")], is_repeated=True).version == second.version
    other = sent.send([k8s.pod("p3", node="n1")], [k8s.pod("p1")], is_repeated=True)
    assert other.version == outcome([node, k8s.pod("p3", node="n1")])


def test_a_refused_request_changes_nothing() -> None:
    sent, node = Sent(), k8s.node("n1")
    sent.send([node])
    with pytest.raises(ObjectError, match="Namespace Not A Name"):
        sent.send([k8s.pod("p1", node="n1"), k8s.namespace("Not A Name")])
    with pytest.raises(ObjectError, match="PodDisruptionBudget default/b"):
        sent.send([k8s.pod("p1", node="n1"), k8s.pdb("b", min_available=1, max_unavailable=1)])
    assert sent.send([k8s.pod("p2", node="n1")]).version == outcome([node, k8s.pod("p2", node="n1")])


def test_an_empty_list_of_a_kind_says_that_there_are_none() -> None:
    objects = [k8s.node("n1"), k8s.pod("p1", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}])]
    none = {"apiVersion": "v1", "kind": "PersistentVolumeClaimList", "items": []}
    assert Sent().send([*objects, none]).volumes[0].detail == "claim default/c does not exist"
    sent = Sent()
    assert sent.send(objects).volumes == ()
    assert sent.send([none]).volumes[0].detail == "claim default/c does not exist"


def test_the_encoding_of_the_api_server_means_the_same_as_json() -> None:
    objects = [k8s.node("n1"), k8s.pod("p1", node="n1", cpu="100m"), k8s.namespace("default")]
    reader = ObjectReader(SharedParts(()), reserve_any)
    page = meta_pb2.RawList(items=[encoded(objects[1]).SerializeToString()])
    reader.put([wrapped(objects[0]), wrapped(objects[2]), wrap("PodList", "v1", page.SerializeToString())])
    update = ClusterObjects().update(reader.changes, None).update
    assert update.snapshot is not None
    assert canonicalize(update.snapshot).version == outcome(objects)


@given(st.integers(0, 10**6))
def test_random_objects_mean_the_same_in_both_encodings(seed: int) -> None:
    objects = random_objects(seed)
    found = []
    for put in (texts(objects), [wrapped(one) for one in objects]):
        reader = ObjectReader(SharedParts(()), reserve_any)
        try:
            reader.put(put)
            snapshot = ClusterObjects().update(reader.changes, None).update.snapshot
            assert snapshot is not None
            found.append(canonicalize(snapshot).version)
        except REFUSED as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_the_actuators_status_counts_while_it_is_sent() -> None:
    group = {"apiVersion": "trimtab.dev/v1", "kind": "NodeGroup", "metadata": {"name": "g"}}
    objects = [
        k8s.node("n1"),
        k8s.pod("p1", node="n1"),
        {**group, "spec": {"minSize": 0, "maxSize": 5, "nodes": ["n1"]}},
    ]
    status = actuator_pb2.ActuatorStatus()
    status.deletions.add(node="n1")
    status.node_groups.add(id="g", min_size=1, max_size=9, target_size=3)
    status.node_groups[0].settings.utilization_threshold = 0.7
    sent = Sent()
    with_status = sent.send(objects, status=status)
    assert [one.node for one in with_status.deletions] == ["n1"]
    assert (with_status.groups[0].max_size, with_status.groups[0].target_size) == (9, 3)
    settings = sent.cluster.settings(plan_pb2.PlanSettings(), status)
    assert settings.node_groups["g"].utilization_threshold == 0.7
    assert sent.send([]).version == outcome(objects)


@pytest.mark.parametrize(
    ("put", "problem"),
    [
        pytest.param([b"{"], "not Kubernetes objects", id="no JSON"),
        pytest.param([b"\xff\xfe"], "not Kubernetes objects", id="no text"),
        pytest.param([b"k8s\0\xff\xff"], "not Kubernetes objects", id="no message"),
        pytest.param([b"[" * 100_000], "not Kubernetes objects", id="deep"),
        pytest.param([b'{"metadata": ' + b'{"a": ' * 5000 + b"1" + b"}" * 5001], "not Kubernetes", id="deep object"),
        pytest.param([b'{"kind":"Pod","apiVersion":"v1"}{}'], "not Kubernetes objects", id="two documents"),
        pytest.param(texts([k8s.pod("p"), k8s.pod("p")]), "Pod default/p: it is given twice", id="twice"),
        pytest.param(texts([k8s.node("n"), k8s.node("n")]), "Node n: it is given twice", id="node twice"),
        pytest.param(texts([k8s.pod("")]), "Pod default/.*metadata.name: it is missing; give", id="no name"),
        pytest.param(texts([k8s.node("")]), "Node .*metadata.name: it is missing; give", id="node without name"),
        pytest.param(texts([k8s.pod("p", cpu="much")]), "Pod default/p: .*requests", id="bad amount"),
        pytest.param(
            [b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","name":"q"}}'], "'name' is given twice", id="key"
        ),
        pytest.param([b" " * (MOST_OBJECT_BYTES + 1)], "send lists in pieces", id="large"),
        pytest.param(
            texts([kp.node_pool(), machine_offer("m", -1)]),
            "MachineOffer m: spec.price: -1.0 is out of range",
            id="price",
        ),
        pytest.param(
            texts([kp.node_pool(), machine_offer("", 1)]), "MachineOffer .*: metadata.name", id="offer without name"
        ),
        pytest.param(
            texts([kp.node_pool(), machine_offer("m", 1, capacityType="lent")]), "'lent' is unknown; use one", id="lent"
        ),
        pytest.param(
            texts([kp.node_pool(), machine_offer("a", 1), machine_offer("b", 1, instanceType="a")]),
            "MachineOffer b: spec: a/z1/on-demand is offered twice",
            id="offered twice",
        ),
        pytest.param(
            texts([{**k8s.node_group(), "spec": {"maxSize": 1, "daemonSetPods": [k8s.pod("p")]}}]),
            "spec.daemonSetPods: there is no template; give spec.template too",
            id="pods without a template",
        ),
        pytest.param([b'{"apiVersion":"trimtab.dev/v1","kind":"NodGroup"}'], "did you mean NodeGroup", id="our kind"),
    ],
)
def test_bad_input_is_refused_with_object_field_and_remedy(put: list[bytes], problem: str) -> None:
    reader = ObjectReader(SharedParts(()), reserve_any)

    def read_and_build() -> None:
        reader.put(put)
        ClusterObjects().update(reader.changes, None)

    with pytest.raises(InvalidInputError, match=problem):
        read_and_build()


def test_machine_offers_are_what_node_pools_may_have_new_nodes_of() -> None:
    sent, pool = Sent(), kp.node_pool()
    first = sent.send([pool, machine_offer("m5.xlarge", 0.2), machine_offer("m5.large", 0.1, capacityType="spot")])
    groups = {group.id: group.price_per_hour for group in first.groups}
    assert groups == {"default/m5.large/z1/spot": 0.1, "default/m5.xlarge/z1/on-demand": 0.2}
    second = sent.send([machine_offer("m5.xlarge", 0.3)], delete=[machine_offer("m5.large", 0.1)])
    assert {group.id: group.price_per_hour for group in second.groups} == {"default/m5.xlarge/z1/on-demand": 0.3}
    assert outcome([pool, machine_offer("m5.xlarge", 0.3)]) == second.version


def test_a_node_group_may_say_which_pods_its_new_nodes_have() -> None:
    group = k8s.node_group(template=k8s.node("t"))
    agent = k8s.pod("agent", namespace="kube-system", cpu="250m")
    sent = Sent()
    sent.send([k8s.node("n1"), group])
    after = {**group, "spec": group["spec"] | {"daemonSetPods": [agent]}}
    snapshot = sent.send([after])
    (pod,) = snapshot.groups[0].daemonset_pods
    assert pod.namespace == "kube-system"
    assert outcome([k8s.node("n1"), after]) == snapshot.version


def test_memory_is_reserved_before_objects_are_decoded_and_given_back_for_what_they_share() -> None:
    taken: list[int] = []
    reader = ObjectReader(SharedParts(()), lambda count, what: taken.append(count))
    reader.put(texts(k8s.pod(f"p{i}", node="n1") for i in range(256)))
    assert taken[0] > 0
    assert max(sum(taken[: i + 1]) for i in range(len(taken))) > 2 * sum(taken)
    assert sum(taken) == reader.changes.kept_bytes

    class FullError(Exception):
        """There is no memory."""

    def refuse(byte_count: int, what: str) -> None:
        raise FullError(what)

    with pytest.raises(FullError):
        ObjectReader(SharedParts(()), refuse).put(texts([k8s.pod("p")]))


def test_pods_of_a_kind_are_kept_once_from_request_to_request() -> None:
    shared = SharedParts(())
    first, second = ObjectReader(shared, reserve_any), ObjectReader(shared, reserve_any)
    first.put(texts([k8s.pod("p1", node="n1", cpu="1")]))
    second.put(texts([k8s.pod("p2", node="n2", cpu="1")]))
    assert first.changes.pods["default", "p1"].pod is second.changes.pods["default", "p2"].pod
