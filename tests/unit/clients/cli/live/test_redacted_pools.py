"""Names of NodePools, and what they ask of plans, in a redacted recording."""

from pathlib import Path

from tests.builders import karpenter as kp
from tests.builders import kubernetes as k8s
from trimtab.clients.cli.live.redaction import redact_file
from trimtab.common.objects import build_snapshot, decode_objects
from trimtab.common.recording import RecordingReader, RecordingWriter
from trimtab.v1 import plan_pb2


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
