"""A delta applied to a snapshot: bit by bit what the whole new snapshot would be.

Decides nothing about the cluster. Both sides are in canonical form first; then their dictionaries are joined (order is
kept, so nothing has to be sorted again), rows are taken from one side or the other, and what nothing refers to is
dropped as for a whole snapshot. Cost: copying the columns once, and O(changes * log rows). Raises SnapshotError,
SnapshotMalformedError.
"""

from google.protobuf.message import DecodeError
from trimtab.v1 import snapshot_pb2 as pb

from planner.model.derive import Derive, build_always
from planner.snapshot.columns import Snapshot
from planner.snapshot.decode import draft
from planner.snapshot.errors import SnapshotMalformedError
from planner.snapshot.joined_dictionaries import join_dictionaries
from planner.snapshot.joined_pods import join_pods
from planner.snapshot.joined_rows import join_tables
from planner.snapshot.sealing import seal
from planner.snapshot.sharing import share


def parse_delta(data: bytes) -> pb.SnapshotDelta:
    """Return the message. Raises SnapshotMalformedError."""
    message = pb.SnapshotDelta()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise SnapshotMalformedError(f"these {len(data)} bytes are no SnapshotDelta: {error}") from error
    return message


def apply_delta(base: Snapshot, delta: pb.SnapshotDelta, derive: Derive = build_always) -> Snapshot:
    """Return the base with the delta's rows added or put in place, and its deleted keys gone.

    The base is kept; what is equal is shared with it (`planner.snapshot.sharing`). derive : that of the base.
    """
    changed = draft(delta.changed)
    dictionaries = join_dictionaries(base, changed, derive)
    tables = join_tables(base, changed, delta, dictionaries)
    pods, dangling = join_pods(base, changed, delta.deleted_pods, (dictionaries, tables))
    joined = Snapshot(
        version="",
        strings=dictionaries.strings,
        resources=dictionaries.resources,
        label_sets=dictionaries.label_sets,
        specs=dictionaries.specs,
        volumes=dictionaries.volumes,
        pods=pods,
        nodes=tables.nodes,
        templates=tables.templates,
        groups=tables.groups,
        owners=tables.owners,
        budgets=tables.budgets,
        namespaces=tables.namespaces,
        deletions=tables.deletions,
        recent_evictions=tables.recent_evictions,
        dangling=dangling,
    )
    return share(base, seal(joined))
