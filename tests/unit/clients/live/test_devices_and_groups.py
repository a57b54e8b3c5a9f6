"""Devices, claims and groups of pods of a watched cluster: the same as from files, change by change; absent kinds make
no noise.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.builders import device_objects as dra
from tests.builders import kubernetes as k8s
from tests.builders import pod_group_objects as gangs
from tests.builders.api_server import FakeApiServer
from tests.builders.expanded_snapshot import applied, expand
from tests.builders.live_snapshots import cluster_of, put, until
from tests.builders.waiting import LIMIT_S
from tests.builders.watched_objects import filled, from_files, kind_of, raw, whole
from tests.unit.common.objects.reading import column, names
from trimtab.common.deltas import Application
from trimtab.common.kubernetes.registry import BY_KIND
from trimtab.common.watched.snapshot_maker import SnapshotMaker
from trimtab.common.watched.watched_objects import DEVICES
from trimtab.v1 import snapshot_pb2 as pb

Json = dict[str, Any]
GPU = "example.com/gpu"
MODEL = 'device.attributes["gpu.example.com"].model == "A100"'
ENTRIES = {"gpu": "one-gpu"}


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with FakeApiServer() as started:
        yield started


def pods(chance: random.Random) -> list[Json]:
    """Return pods of all kinds of claims, and some without."""
    made = chance.choice([None, {"gpu": "web-gpu"}, {"gpu": ""}])
    return [
        dra.claiming_pod("web", templates=ENTRIES, made=made, node=chance.choice(["", "n1"])),
        dra.claiming_pod("twin", templates=ENTRIES),
        dra.claiming_pod("guest", claims={"gpu": "common"}),
        k8s.pod("extended", limits={GPU: str(chance.randrange(1, 3))}),
        k8s.pod("plain"),
    ]


def with_devices(chance: random.Random) -> list[Json]:
    """Return one version of each object of a small cluster with devices."""
    wanted = chance.choice([dra.claim_spec(), dra.claim_spec(dra.request("main", "gpu", count=2))])
    given = chance.choice([[], ["n1/gpu-0"]])
    going = chance.choice([{}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
    daemon = {"cpu": "1", "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}}
    return [
        k8s.node("n1"),
        dra.gpus("n1", chance.randrange(1, 3)),
        dra.gpus("n2"),
        dra.device_class("gpu", *chance.choice([[], [MODEL], ["device.attributes.exists(a, true)"]])),
        dra.device_class("big", extended=chance.choice([GPU, "example.com/other", ""])),
        dra.claim_template("one-gpu", wanted),
        dra.resource_claim("common", wanted, devices=given, users=chance.choice([[], ["guest"]]), **going),
        dra.resource_claim("web-gpu", of=pods(chance)[0], entry="gpu", devices=given),
        dra.taint_rule("broken", pool=chance.choice(["n1", "n2"])),
        k8s.daemon_set("agent", namespace="default", template=daemon),
        *pods(chance),
    ]


def with_groups(chance: random.Random) -> list[Json]:
    """Return one version of each object of a small cluster with groups of pods of all kinds."""
    job = k8s.job("train-job", chance.randrange(1, 4))
    job["spec"]["template"] = {"spec": {"containers": [{"name": "c"}], "priorityClassName": "high"}}
    phase = chance.choice([None, "Succeeded"])
    asking = gangs.pod_group("asking", workload="train")
    asking["metadata"]["annotations"] = chance.choice([{}, {"trimtab.dev/slack": "2"}])
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    return [
        k8s.node("n1"),
        job,
        high | {"value": chance.randrange(3)},
        gangs.pod_group(least=chance.choice([None, 0, 2]), workload=chance.choice(["", "train"])),
        gangs.pod_group("second", workload="train"),
        asking,
        gangs.workload(least=chance.randrange(1, 4), job=chance.choice(["", "train-job"])),
        gangs.workload("old", least=chance.randrange(0, 3), version=gangs.V1ALPHA1, job="train-job"),
        gangs.volcano_group(least=chance.choice([None, 1, 3])),
        gangs.member("a", chance.choice(["team", "second", "gone"])),
        gangs.workload_member("b", "old", replica=chance.choice(["", "0"])),
        gangs.volcano_member("c", node="n1", phase=phase),
        gangs.volcano_member("d"),
        gangs.kueue_member("e", total=chance.choice(["2", "3"])),
        gangs.kueue_member("f", node="n1", phase=phase),
        k8s.pod("g"),
    ]


Versions = Callable[[random.Random], list[Json]]
CLUSTERS = pytest.mark.parametrize("versions", [with_devices, with_groups])


@CLUSTERS
def test_watched_objects_give_the_bytes_that_files_give(versions: Versions) -> None:
    for seed in range(5):
        objects = versions(random.Random(seed))
        assert whole(filled(objects)) == from_files(objects)


@CLUSTERS
@given(seed=st.integers(0, 2**32), refused=st.booleans())
def test_a_base_and_its_deltas_are_the_whole(versions: Versions, seed: int, *, refused: bool) -> None:
    chance = random.Random(seed)
    store = filled(chance.sample(versions(chance), 10))
    maker = SnapshotMaker(store)
    first = maker.next_update([], None).snapshot
    assert first is not None
    tables, application = expand(first), Application(first)
    for step in range(8):
        for one in chance.sample(versions(chance), 2):
            if chance.random() < 0.4:
                store.drop(kind_of(one), raw(one))
            else:
                store.put(kind_of(one), [raw(one)])
        delta = maker.next_update([], None).delta
        assert delta is not None
        if refused and chance.random() < 0.5 and step < 7:
            maker.requeue()
            continue
        tables = applied(tables, delta)
        application.add(delta)
        result, fresh = application.result(), pb.ClusterSnapshot.FromString(whole(store))
        assert tables == expand(fresh) == expand(result), step
        assert result.devices == fresh.devices, step
        assert claims(result) == claims(fresh), step


def claims(snapshot: pb.ClusterSnapshot) -> dict[str, list[bytes]]:
    """Return what each pod claims."""
    specs = [snapshot.pod_specs[at] for at in column(snapshot.pods.spec)]
    return {
        name: [one.SerializeToString(deterministic=True) for one in (*spec.claims, *spec.extended_device_requests)]
        for name, spec in zip(names(snapshot), specs, strict=True)
    }


def test_a_pod_of_a_group_of_kubernetes_does_not_change_the_group() -> None:
    store = filled([gangs.pod_group()])
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    store.put("Pod", [raw(gangs.member("a"))])
    delta = maker.next_update([], None).delta
    assert delta is not None
    assert (delta.changed.pods.count, list(delta.changed.pod_groups)) == (1, [])


def test_an_allocation_is_a_change_of_devices_and_of_no_pod() -> None:
    pod = dra.claiming_pod("guest", claims={"gpu": "common"})
    store = filled([pod, dra.resource_claim("common")])
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    store.put("ResourceClaim", [raw(dra.resource_claim("common", devices=["n1/gpu-0"], users=["guest"]))])
    delta = maker.next_update([], None).delta
    assert delta is not None
    assert (delta.changed.pods.count, delta.changed.devices.claims.flags) == (0, b"\1")
    store.put("ResourceClaim", [raw(dra.resource_claim("common", devices=["n1/gpu-0"], users=["guest"]))])
    again = maker.next_update([], None)
    assert again.is_empty


def test_a_heartbeat_of_a_driver_is_not_sent() -> None:
    claim = dra.resource_claim("common", devices=["n1/gpu-0"])
    store = filled([claim])
    maker = SnapshotMaker(store)
    maker.next_update([], None)
    claim["status"]["devices"] = [{"driver": dra.DRIVER, "pool": "n1", "device": "gpu-0", "conditions": []}]
    store.put("ResourceClaim", [raw(claim)])
    delta = maker.next_update([], None).delta
    assert delta is not None
    assert not delta.changed.HasField("devices")


def test_a_whole_snapshot_has_the_devices_that_were_sent_before() -> None:
    store = filled(with_devices(random.Random(3)))
    maker = SnapshotMaker(store)
    first = maker.next_update([], None).snapshot
    assert first is not None
    maker.forget()
    again = maker.next_update([], None).snapshot
    assert again is not None
    assert again.HasField("devices")
    assert again == first


def test_pods_with_claims_of_one_template_share_their_work() -> None:
    made = [dra.claiming_pod(f"p{at}", templates=ENTRIES, made={"gpu": f"c{at}"}) for at in range(5)]
    store = filled(made)
    rows = [store.pods["default", f"p{at}"] for at in range(5)]
    assert len({id(row.pod) for row in rows}) == 1
    assert [row.claims[0].made for row in rows] == [f"c{at}" for at in range(5)]


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_devices_are_followed_in_the_version_that_the_server_has(server: FakeApiServer, version: str) -> None:
    objects = {kind: BY_KIND[kind]._replace(api_versions=(f"resource.k8s.io/{version}",)) for kind in DEVICES}
    for kind, resource in objects.items():
        server.define(resource.path, kind)
    server.put_json(objects["ResourceSlice"].path, dra.gpus("n1"))
    put(server, k8s.node("n1"))
    with cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        snapshot = cluster.next_update([]).update.snapshot
        assert snapshot is not None
        assert snapshot.devices.slices.count == 1
        server.put_json(objects["ResourceClaim"].path, dra.resource_claim("c"))
        until(lambda: len(cluster.store.objects["ResourceClaim"]) == 1)
        delta = cluster.next_update([]).update.delta
        assert delta is not None
        assert delta.changed.devices.claims.count == 1


def test_a_server_without_devices_is_no_warning(server: FakeApiServer) -> None:
    put(server, k8s.node("n1"))
    with capture_logs() as logged, cluster_of(server) as cluster:
        assert cluster.wait_until_listed(LIMIT_S)
        seen = cluster.next_update([])
    assert set(DEVICES) <= set(seen.absent)
    assert (seen.notes, [one for one in logged if one["log_level"] == "warning"]) == ([], [])
