"""One snapshot of a cluster, or the changes since the one before, as a value."""

from typing import NamedTuple

from trimtab.v1 import snapshot_pb2 as pb


class SnapshotUpdate(NamedTuple):
    """Exactly one of `snapshot` (the whole cluster) and `delta`; `is_empty`: nothing has changed.

    notes : remarks for users about the objects, like those of `build_snapshot` for files
    """

    snapshot: pb.ClusterSnapshot | None
    delta: pb.SnapshotDelta | None
    is_empty: bool = False
    notes: tuple[str, ...] = ()


class Observation(NamedTuple):
    """A snapshot or delta, notes for people, and the kinds that the server does not know. `update` : the snapshot or
    delta; `absent` : the kinds.
    """

    update: SnapshotUpdate
    notes: list[str]
    absent: tuple[str, ...] = ()
