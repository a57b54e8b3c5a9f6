"""A live cluster into snapshots: the API server's bytes replayed, then one changed pod, then nothing."""

import json
from typing import NamedTuple

from tests.benchmarks.registry import Stages, scenario
from tests.builders import kubernetes as k8s
from tests.builders.kubernetes_protobuf import as_message, wrap
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.rpc.collection import collection_paused
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.watched_objects import WatchedObjects
from trimtab.k8s.v1 import core_pb2, meta_pb2
from trimtab.v1 import snapshot_pb2

NODES, PODS, WORKLOADS, PAGE = 5_000, 150_000, 500, 5_000


class Replay(NamedTuple):
    """Bodies of list calls, by kind, and the bytes of one pod on another node."""

    bodies: list[tuple[str, bytes]]
    moved: list[bytes]


class Answer(NamedTuple):
    """What came out."""

    whole: snapshot_pb2.ClusterSnapshot
    delta: snapshot_pb2.SnapshotDelta
    nothing: bool


def setup() -> Replay:
    """Pods as the API server sends them, with what it adds: conditions, tolerations, the token's volume."""
    owners = [k8s.replica_set(f"web-{i:03}", PODS // WORKLOADS) for i in range(WORKLOADS)]
    nodes = [k8s.node(f"node-{i:05}", cpu="32", zone=f"zone-{i % 3}") for i in range(NODES)]
    bodies = [("ReplicaSet", body(owners)), ("Node", body(nodes))]
    templates = [pod_of(owner, i) for i, owner in enumerate(owners)]
    pods = [named(templates[i % WORKLOADS], i, i % NODES).SerializeToString() for i in range(PODS)]
    for start in range(0, PODS, PAGE):
        page = meta_pb2.RawList(items=pods[start : start + PAGE])
        bodies.append(("Pod", wrap("PodList", "v1", page.SerializeToString())))
    return Replay(bodies, [named(templates[0], 0, 1).SerializeToString()])


def pod_of(owner: k8s.Json, number: int) -> core_pb2.Pod:
    """A pod of a workload."""
    built = k8s.pod(
        "x",
        cpu=f"{50 + number}m",
        node="x",
        owner=owner,
        labels={"app": owner["metadata"]["name"], "team": f"team-{number % 20}", "pod-template-hash": f"{number:010x}"},
        annotations={"cni/ip": "x", "prometheus.io/scrape": "true"},
        tolerations=[
            k8s.toleration(f"node.kubernetes.io/{name}", effect="NoExecute") for name in ("not-ready", "unreachable")
        ],
        volumes=[
            {"name": "kube-api-access-xxxxx", "projected": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "config", "configMap": {"name": "x"}},
        ],
    )
    conditions = ("Initialized", "ContainersReady", "PodScheduled", "PodReadyToStartContainers")
    built["status"]["conditions"] += [{"type": name, "status": "True"} for name in conditions]
    return as_message(built, core_pb2.Pod)


def named(pod: core_pb2.Pod, number: int, node: int) -> core_pb2.Pod:
    """Give a workload's pod what is its own."""
    pod.metadata.name = f"{pod.metadata.labels[0].value}-{number:06}"
    pod.metadata.uid = f"8ba8e69e-7575-4901-8857-{number:012}"
    pod.metadata.annotations[0].value = f"10.0.{number >> 8}.{number & 255}"
    pod.metadata.creation_timestamp.seconds = 1_790_000_000 + number
    pod.spec.node_name = f"node-{node:05}"
    pod.spec.volumes[0].name = f"kube-api-access-{number % 99_991:05}"
    return pod


def body(objects: list[k8s.Json]) -> bytes:
    """The body of a list in one page, as JSON."""
    return json.dumps({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": objects}).encode()


def run(replay: Replay, stages: Stages) -> Answer:
    """List, take the whole, change one pod, take the delta, take once more."""
    store = WatchedObjects()
    maker = SnapshotMaker(store)
    with collection_paused():
        with stages.stage("list"):
            for kind, data in replay.bodies:
                store.put(kind, BY_KIND[kind].encoding.read_page(data).items)
        with stages.stage("whole snapshot"):
            whole = maker.next_update([], None).snapshot
    maker.next_update([], None)
    with stages.stage("one changed pod"):
        store.put("Pod", replay.moved)
        delta = maker.next_update([], None).delta
    with stages.stage("no change"):
        nothing = maker.next_update([], None).is_empty
    stages.fact("list MB", sum(len(data) for _, data in replay.bodies) / 1e6)
    assert whole is not None
    assert delta is not None
    return Answer(whole, delta, nothing)


def verify(replay: Replay, answer: Answer) -> None:
    """Everything has come, and specs are shared."""
    assert (answer.whole.pods.count, len(answer.whole.nodes)) == (PODS, NODES)
    assert (len(answer.whole.pod_specs), len(answer.whole.owners)) == (WORKLOADS, WORKLOADS)
    assert (answer.delta.changed.pods.count, len(answer.delta.changed.nodes)) == (1, 0)
    assert "node-00001" in answer.delta.changed.strings
    assert answer.nothing


scenario(
    name="watch a cluster",
    what="5,000 nodes / 150,000 pods: the API server's bytes to a snapshot, then one changed pod, then none",
    setup=setup,
    run=run,
    verify=verify,
    aims={"total": 3.0, "one changed pod": 0.001, "no change": 0.001},
    repeats=3,
    reference="the official client's model classes take 5 to 8 s of CPU for 10,000 pods",
)
