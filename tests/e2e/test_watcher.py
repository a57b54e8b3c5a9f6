"""The watcher against a real API server: it sees the same as kubectl prints, bit for bit, whatever changes
meanwhile.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.expanded_snapshot import Tables, applied, expand
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.workloads import kwok_node, workload
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.live.reflector import ReflectorSettings
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.errors import KubernetesError, MissingPermissionError
from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.kubernetes.registry import WATCHED
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.v1 import snapshot_pb2 as pb

pytestmark = pytest.mark.e2e

# Of kinds that every API server has.
KINDS = ",".join(resource.plural for resource in WATCHED.values() if not resource.is_custom)
SETTLE_S = 60


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state: Path = tmp_path_factory.mktemp("plane") / "state"
    with ControlPlane(cached_binaries(), state) as started:
        yield started


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[LiveCluster]:
    api = Api(connect_cluster(ConnectionSettings(plane.kubeconfig("admin"))))
    # Small pages, so that every list of pods has several.
    with LiveCluster(api, ReflectorSettings(page_limit=7, watch_timeout_s=3)) as started:
        assert started.wait_until_listed(30)
        yield started


def apply(plane: ControlPlane, *objects: k8s.Json) -> None:
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(k8s.listed(*objects)))


def printed(plane: ControlPlane) -> bytes:
    """Return the snapshot of kubectl's output."""
    objects = decode_objects([json.loads(plane.kubectl("get", KINDS, "-A", "-o", "json"))])
    objects.given = set(WATCHED)
    return build_snapshot(objects).snapshot.SerializeToString(deterministic=True)


def seen(cluster: LiveCluster) -> bytes:
    """Return the watcher's whole snapshot."""
    cluster.forget()
    snapshot = cluster.next_update([]).update.snapshot
    assert snapshot is not None
    return snapshot.SerializeToString(deterministic=True)


def until_equal(plane: ControlPlane, cluster: LiveCluster) -> bytes:
    """Wait until watcher and kubectl agree: objects change while they are printed one kind after the other."""
    end = time.monotonic() + SETTLE_S
    while True:
        expected, got = printed(plane), seen(cluster)
        if expected == got:
            return got
        if time.monotonic() > end:
            before, after = (expand(pb.ClusterSnapshot.FromString(one)) for one in (expected, got))
            assert after == before
            assert got == expected
        time.sleep(0.3)


def fill(plane: ControlPlane) -> None:
    """Create objects of every kind that a snapshot uses."""
    for i in range(6):
        plane.kubectl("create", "-f", "-", stdin=json.dumps(kwok_node(f"n{i}", "abc"[i % 3], taint=i == 5)))
    agent = workload("agent", 1)
    agent["kind"] = "DaemonSet"
    del agent["spec"]["replicas"], agent["spec"]["template"]["spec"]["topologySpreadConstraints"]
    db = workload("db", 3)
    db["kind"], db["spec"]["serviceName"] = "StatefulSet", "db"
    db["spec"]["volumeClaimTemplates"] = [
        {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "batch", "namespace": "default"},
        "spec": {"parallelism": 2, "completions": 5, "template": workload("batch", 1)["spec"]["template"]},
    }
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    budgets = [
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
         "spec": {"selector": {"matchLabels": {"app": "web"}}, field: value}}
        for name, field, value in [("b1", "minAvailable", "50%"), ("b2", "maxUnavailable", 1)]
    ]  # fmt: skip
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv1", "labels": {"topology.kubernetes.io/zone": "a"}},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            },
        },
    }
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
         "provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n0"},
         "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "n0", "allocatable": {"count": 0}}]}},
    ]  # fmt: skip
    apply(plane, workload("web", 10), agent, db, job, *budgets, volume, *classes)


def test_the_watcher_sees_what_kubectl_prints_bit_for_bit_under_churn(
    plane: ControlPlane, cluster: LiveCluster
) -> None:
    fill(plane)
    chance = random.Random(1)
    tables = expand(pb.ClusterSnapshot.FromString(until_equal(plane, cluster)))
    assert len(tables["pods"]) >= 15
    for step in range(6):
        name = chance.choice(["web", "extra"])
        apply(plane, workload(name, chance.randrange(12)))
        if step == 1:
            plane.kubectl("label", "node", "n1", f"step={step}", "--overwrite")
            plane.kubectl("taint", "node", "n2", "dedicated=y:NoSchedule", "--overwrite")
        if step == 2:
            plane.kubectl("delete", "node", "n3", "--wait=false")
        if step == 3:
            plane.kubectl("delete", "pod", "-l", "app=web", "--wait=false")
        if step == 4:
            plane.kubectl("delete", "poddisruptionbudget", "b2")
            plane.kubectl("create", "namespace", "more")
        tables = follow(cluster, tables)
        until_equal(plane, cluster)
        cluster.forget()
        whole = cluster.next_update([]).update.snapshot
        assert whole is not None
        tables = expand(whole)


def follow(cluster: LiveCluster, tables: Tables) -> Tables:
    """Apply deltas for a second, then compare the result with the whole snapshot."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        delta = cluster.next_update([]).update.delta
        if delta is not None:
            tables = applied(tables, delta)
        time.sleep(0.05)
    with cluster._lock:  # nothing may come between the two
        last = cluster._maker.next_update([], None)
        assert last.delta is not None
        cluster._maker.forget()
        whole = cluster._maker.next_update([], None).snapshot
    assert whole is not None
    assert applied(tables, last.delta) == expand(whole)
    return expand(whole)


def test_a_version_that_the_server_no_longer_knows_leads_to_a_new_list(
    plane: ControlPlane, cluster: LiveCluster
) -> None:
    pods = next(one for one in cluster._reflectors if one.resource.kind == "Pod")
    lists = pods.lists
    # Lost are all versions before the server's start; the oldest one is put in the place of the latest.
    plane.kubectl("create", "namespace", "before-restart")
    plane.kill("kube-apiserver")
    until(lambda: pods._stream is None, "the watch has ended")
    pods._version = "1"
    plane.start_api_server()
    until(lambda: pods.lists > lists, "there is a new list")
    plane.kubectl("create", "namespace", "after-restart")
    until_equal(plane, cluster)


def until(reached: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SETTLE_S
    while not reached():
        assert time.monotonic() < end, f"not in {SETTLE_S} s: {what}"
        time.sleep(0.05)


def test_what_a_user_may_not_do_is_said_as_the_rules_that_lack(plane: ControlPlane) -> None:
    api = Api(connect_cluster(ConnectionSettings(plane.kubeconfig("nobody"))))
    with pytest.raises(MissingPermissionError) as caught:
        LiveCluster(api).start()
    rules = "rules:\n" + "\n".join(f"  {line}" for line in caught.value.rules.splitlines())
    role = f"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: watcher}}\n{rules}\n"
    plane.kubectl("apply", "-f", "-", stdin=role)
    plane.kubectl("create", "clusterrolebinding", "watcher", "--clusterrole=watcher", "--user=nobody")
    end = time.monotonic() + SETTLE_S
    while True:
        try:
            with LiveCluster(api) as cluster:
                assert cluster.wait_until_listed(SETTLE_S)
                return
        except (KubernetesError, InvalidInputError):
            assert time.monotonic() < end
            time.sleep(0.5)
