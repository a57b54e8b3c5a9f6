"""Devices, claims and groups of pods on a real control plane: read once, followed, exported to files and recorded, a
cluster is the same.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import device_objects as dra
from tests.builders import pod_group_objects as gangs
from tests.e2e import workloads
from tests.e2e.actuator_process import apply, listed, until
from tests.e2e.control_plane.control_plane import DEVICE_GATES, GANG_GATES, SERVED, ControlPlane, cached_binaries
from trimtab.clients.live.cluster import LiveCluster
from trimtab.clients.live.single_read import read_once
from trimtab.common.deltas import Application
from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.registry import EXPORTED_KINDS
from trimtab.common.objects import build_snapshot, read_objects
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.v1 import recording_pb2
from trimtab.v1 import snapshot_pb2 as pb

pytestmark = pytest.mark.e2e

Json = dict[str, Any]
LIMIT_S = 120.0
KINDS = (
    "resourceclaims,resourceclaimtemplates,resourceslices,deviceclasses,devicetaintrules.v1beta2.resource.k8s.io,"
    "podgroups.scheduling.k8s.io,workloads.scheduling.k8s.io"
)
MODEL = 'device.attributes["gpu.example.com"].model == "A100"'
TOLERATED = {"tolerations": [{"key": "old", "operator": "Exists"}]}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    state = tmp_path_factory.mktemp("plane") / "state"
    with ControlPlane(cached_binaries(), state, feature_gates=(*DEVICE_GATES, *GANG_GATES), served=SERVED) as started:
        rule = dra.taint_rule("old", "old", driver=dra.DRIVER, pool="n-2")
        rule["spec"]["taint"]["effect"] = "NoSchedule"
        apply(started, rule | {"apiVersion": "resource.k8s.io/v1beta2"})
        apply(started, *workloads.nodes("n", 2), dra.device_class("gpu", MODEL))
        apply(started, *map(dra.gpus, ("n-1", "n-2")), dra.claim_template("one-gpu"))
        apply(started, gangs.workload(), gangs.pod_group(workload="train"), gangs.pod_group("late", 5))
        common = dra.claim_spec(dra.request("main", "gpu", **TOLERATED))
        claim = dra.resource_claim("common", common)
        del claim["status"]
        apply(started, claim)
        apply(
            started,
            pod("own", "resourceClaims", [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]),
            pod("first", "resourceClaims", [{"name": "gpu", "resourceClaimName": "common"}]),
            pod("second", "resourceClaims", [{"name": "gpu", "resourceClaimName": "common"}]),
            pod("a", "schedulingGroup", {"podGroupName": "team"}),
            pod("b", "schedulingGroup", {"podGroupName": "team"}),
            pod("held", "schedulingGroup", {"podGroupName": "late"}),
        )
        until(lambda: running(started) == {"own", "first", "second", "a", "b"}, LIMIT_S, "all but the held pod run")
        until(lambda: len(users(started)) == 3, LIMIT_S, "claims are reserved")
        yield started


def pod(name: str, field: str, value: Any) -> Json:
    made = workloads.bare_pod(name)
    made["spec"][field] = value
    return made


def running(plane: ControlPlane) -> set[str]:
    return {one["metadata"]["name"] for one in listed(plane, "pods") if one["status"].get("phase") == "Running"}


def users(plane: ControlPlane) -> set[str]:
    claims = listed(plane, "resourceclaims")
    return {used["name"] for one in claims for used in one.get("status", {}).get("reservedFor", ())}


def exported(plane: ControlPlane, directory: Path) -> pb.ClusterSnapshot:
    """Return the snapshot of what kubectl prints."""
    path = directory / "cluster.json"
    path.write_text(plane.kubectl("get", f"{EXPORTED_KINDS},{KINDS}", "-A", "-o", "json"))
    return build_snapshot(read_objects([path])).snapshot


def parts(snapshot: pb.ClusterSnapshot) -> tuple[Any, ...]:
    """Return what a snapshot says of devices and groups, but for the version of the server, which files do not tell."""
    names, rows, at = [], {}, 0
    devices = pb.Devices()
    devices.CopyFrom(snapshot.devices)
    devices.ClearField("kubernetes_minor")
    for length in memoryview(snapshot.pods.name_lengths).cast("i"):
        names.append(snapshot.pods.names[at : at + length].decode())
        at += length
    groups = memoryview(snapshot.pods.pod_group).cast("i")
    for name, spec, group in zip(names, memoryview(snapshot.pods.spec).cast("i"), groups, strict=True):
        claims = [one.SerializeToString(deterministic=True) for one in snapshot.pod_specs[spec].claims]
        rows[name] = claims, snapshot.strings[group]
    return rows, devices, list(snapshot.pod_groups)


def test_read_once_followed_exported_and_recorded_it_is_the_same_cluster(plane: ControlPlane, tmp_path: Path) -> None:
    of_files = exported(plane, tmp_path)
    api = Api(connect_cluster(ConnectionSettings(plane.kubeconfig("admin"), "c")))
    read = read_once(api).snapshot
    assert parts(read) == parts(of_files)
    assert read.devices.kubernetes_minor >= 36
    with LiveCluster(api) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        first = cluster.next_update([]).update.snapshot
        assert first is not None
        assert parts(first) == parts(of_files)
        recording = tmp_path / "cluster.trimtab"
        with RecordingWriter(recording, recording_pb2.RecordingHeader()) as writer:
            writer.write(first)
        with recording.open("rb") as opened:
            frames = list(RecordingReader(str(recording), opened))
        assert parts(frames[0].snapshot) == parts(of_files)
        plane.kubectl("delete", "pod", "second", "--wait=true")
        plane.kubectl("delete", "podgroup", "late", "--wait=false")
        until(lambda: len(users(plane)) == 2, LIMIT_S, "the claim is released")
        application = Application(first)
        until(lambda: follows(cluster, application, plane, tmp_path), LIMIT_S, "the changes have arrived")


def follows(cluster: LiveCluster, application: Application, plane: ControlPlane, directory: Path) -> bool:
    """Apply what has changed; return whether the cluster is now as kubectl prints it."""
    delta = cluster.next_update([]).update.delta
    assert delta is not None
    application.add(delta)
    found, expected = parts(application.result()), parts(exported(plane, directory))
    return found[:2] == expected[:2] and {one.name for one in found[2]} == {one.name for one in expected[2]}


def test_the_objects_say_what_the_scheduler_did(plane: ControlPlane, tmp_path: Path) -> None:
    snapshot = exported(plane, tmp_path)
    devices = snapshot.devices
    assert devices.slices.count == 2
    assert len(devices.contents) == 1
    (rule,) = devices.taint_rules
    assert (rule.driver, rule.pool, rule.taint.key) == (dra.DRIVER, "n-2", "old")
    pools = {devices.strings[at] for at in memoryview(devices.claims.result_pool).cast("i")}
    assert devices.claims.count == 2
    assert pools <= {"n-1", "n-2"}
    assert set(devices.claims.flags) == {1}
    groups = {one.name: one.min_count for one in snapshot.pod_groups}
    assert groups["team"] == 2
    by_pod = {one["metadata"]["name"]: one for one in json.loads(plane.kubectl("get", "pods", "-o", "json"))["items"]}
    assert by_pod["own"]["spec"]["nodeName"] == "n-1", "the devices of the other node are tainted"
