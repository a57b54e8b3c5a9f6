"""A redacted recording keeps which devices, claims and groups of pods belong together, and what expressions read, but
no name of a cluster. Nor do names of NodePools stay, and what they ask of plans.
"""

from pathlib import Path

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.builders import device_objects as dra
from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from tests.builders import pod_group_objects as gangs
from trimtab.clients.cli.live.redaction import redact_file
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.objects.devices.extended_resources import IMPLICIT
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.v1 import plan_pb2, recording_pb2
from trimtab.v1 import snapshot_pb2 as pb

MODEL = 'device.attributes["gpu.example.com"].model == "A100"'
CREATED = "2026-01-01T00:00:00Z"


def redacted(tmp_path: Path, snapshot: pb.ClusterSnapshot) -> pb.ClusterSnapshot:
    """Return a snapshot as a redacted recording has it."""
    plain, target = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    with RecordingWriter(plain, recording_pb2.RecordingHeader()) as writer:
        writer.write(snapshot)
        writer.write(plan_pb2.PlanRequest(now=Timestamp(seconds=1_790_000_000)))
    redact_file(plain, target)
    with target.open("rb") as opened:
        frames = list(RecordingReader(str(target), opened))
    return frames[0].snapshot


def strings_of(devices: pb.Devices, column: bytes) -> list[str]:
    return [devices.strings[int.from_bytes(column[at : at + 4], "little")] for at in range(0, len(column), 4)]


def test_devices_and_claims_are_as_before_without_the_names_of_the_cluster(tmp_path: Path) -> None:
    pod = dra.claiming_pod("secretpod", templates={"gpu": "secrettemplate"}, made={"gpu": "secretclaim"})
    snapshot = k8s.snapshot_of(
        k8s.node("secretnode1"),
        k8s.node("secretnode2"),
        pod,
        k8s.pod("secretother", limits={f"{IMPLICIT}secretclass": "1"}),
        dra.device_class("secretclass", MODEL, created=CREATED, extended="secret.example.org/gpu"),
        dra.claim_template("secrettemplate", dra.claim_spec(dra.request("secretrequest", "secretclass"))),
        dra.gpus("secretnode2"),
        dra.gpus("secretnode1"),
        dra.resource_claim("secretclaim", of=pod, entry="gpu", devices=["secretnode1/gpu-0"], node="secretnode1",
                           users=["secretpod"]),
        dra.taint_rule("secretrule", "secretkey", driver=dra.DRIVER, pool="secretnode1"),
    )  # fmt: skip
    found = redacted(tmp_path, snapshot)
    assert b"secret" not in found.SerializeToString()
    before, after = snapshot.devices, found.devices
    assert after.contents == before.contents
    assert strings_of(after, after.slices.driver) == [dra.DRIVER] * 2
    pools, nodes = strings_of(after, after.slices.pool), strings_of(after, after.slices.node)
    assert pools == nodes == sorted(node.name for node in found.nodes)
    assert strings_of(after, after.claims.result_pool) == strings_of(after, after.claims.node) == nodes[:1]
    assert after.taint_rules[0].pool == nodes[0]
    assert after.claims.pods == after.claims.consumers != b"secretpod"
    (asked,) = (spec.extended_device_requests[0] for spec in found.pod_specs if spec.extended_device_requests)
    assert asked.resource == IMPLICIT + after.classes[0].name
    assert list(after.classes[0].selectors) == [MODEL]
    assert 0 < after.classes[0].create_time.seconds < before.classes[0].create_time.seconds


def test_pools_that_are_not_named_after_nodes_keep_their_order_among_all_pools(tmp_path: Path) -> None:
    names = ["a-pool", "node-b", "z-pool"]
    slices = [dra.resource_slice(f"s-{name}", pool=name, allNodes=True) for name in names]
    snapshot = k8s.snapshot_of(k8s.node("node-b"), dra.device_class(), *slices)
    devices = redacted(tmp_path, snapshot).devices
    pools = strings_of(devices, devices.slices.pool)
    assert pools == sorted(pools)
    assert len({*pools, *names}) == 6


@pytest.mark.parametrize(("slack", "stays"), [("2", "2"), ("secret", "redacted")])
def test_room_for_gangs_stays_if_it_is_a_count(tmp_path: Path, slack: str, stays: str) -> None:
    group = gangs.pod_group("secretgang", 2)
    group["metadata"]["annotations"] = {"trimtab.dev/slack": slack}
    (found,) = redacted(tmp_path, k8s.snapshot_of(group)).pod_groups
    assert found.slack == stays


def test_pods_stay_in_their_groups(tmp_path: Path) -> None:
    snapshot = k8s.snapshot_of(
        gangs.pod_group("secretgang", 2), gangs.pod_group("secretbroken", 0), gangs.member("secretpod", "secretgang"),
        gangs.volcano_member("secretmember", "secretgroup"),
    )  # fmt: skip
    found = redacted(tmp_path, snapshot)
    assert b"secret" not in found.SerializeToString()
    groups = {group.name: group for group in found.pod_groups}
    named = {found.strings[at] for at in memoryview(found.pods.pod_group).cast("i")}
    assert named == {name for name, group in groups.items() if not group.problem}
    assert sorted(group.min_count for group in groups.values()) == [0, 0, 2]
    assert [group.problem for group in groups.values() if group.problem] == ["redacted"]


def test_no_name_of_a_pool_is_left_in_a_redacted_recording(tmp_path: Path) -> None:
    pools = [
        kp.node_pool("secretpool", [kp.requirement("secretkey", "In", "secretvalue")], weight=3, limits={"cpu": "9"}),
        kp.node_pool(
            "secretother", taints=["secrettaint=secretvalue:NoSchedule"], startup_taints=["secretstart:NoExecute"]
        ),
    ]
    objects = [k8s.namespace(), *pools, kp.pool_node("secretnode", "secretpool")]
    built = build_snapshot(decode_objects(objects))
    plain, redacted = tmp_path / "plain.trimtab", tmp_path / "redacted.trimtab"
    with RecordingWriter(plain) as writer:
        writer.write(built.snapshot)
        writer.write(plan_pb2.PlanRequest(settings=built.settings))
    redact_file(plain, redacted)
    with redacted.open("rb") as opened:
        frames = [frame.SerializeToString() for frame in RecordingReader(str(redacted), opened)]
    assert len(frames) >= 2
    left = [frame[at - 20 : at + 30] for frame in frames if (at := frame.find(b"secret")) >= 0]
    assert left == []
