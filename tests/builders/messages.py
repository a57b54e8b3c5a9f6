"""Snapshots as messages: written to a recording, and read as the planner reads them."""

from pathlib import Path

from trimtab.common.recording import RecordingWriter
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import canonicalize, parse_snapshot
from trimtab.v1.recording_pb2 import RecordingHeader
from trimtab.v1.snapshot_pb2 import ClusterSnapshot


def write_snapshot(path: Path, snapshot: ClusterSnapshot, comment: str = "") -> None:
    """Write a recording that holds one cluster."""
    with RecordingWriter(path, RecordingHeader(comment=comment)) as writer:
        writer.write(snapshot)


def decode_snapshot(data: bytes) -> Snapshot:
    """Parse, check and canonicalise. Raises SnapshotMalformedError, SnapshotError."""
    return canonicalize(parse_snapshot(data))
