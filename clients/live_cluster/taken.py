"""One snapshot of a cluster, or what has changed since the one before, as a value. Decides nothing."""

from typing import NamedTuple

from trimtab.v1 import snapshot_pb2 as pb


class Taken(NamedTuple):
    """Exactly one of `snapshot` (the whole cluster) and `delta`; `is_empty`: nothing has changed.

    notes : what a person should know about the objects, as `build_snapshot` returns them for files
    """

    snapshot: pb.ClusterSnapshot | None
    delta: pb.SnapshotDelta | None
    is_empty: bool = False
    notes: tuple[str, ...] = ()


class Seen(NamedTuple):
    """A snapshot or delta, notes for people, and the kinds that the server does not know."""

    taken: Taken
    notes: list[str]
    absent: tuple[str, ...] = ()
