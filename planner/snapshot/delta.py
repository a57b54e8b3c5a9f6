"""Apply a delta to a snapshot; the result equals, bit by bit, the new snapshot sent in full.

Decides nothing about the cluster. Both sides are brought into canonical form; their dictionaries are merged in order
without sorting again, rows are taken from one side or the other, and unused entries are dropped as for a full snapshot.
Cost: one copy of the columns, and O(changes * log rows). Raises SnapshotError, SnapshotMalformedError.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final

from google.protobuf.message import DecodeError

from trimtab.planner.model.derive import Derive, build_always
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.snapshot.checks import SnapshotMalformedError
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import ReadSpecs, draft
from trimtab.planner.snapshot.digest import digest
from trimtab.planner.snapshot.joined_dictionaries import join_dictionaries
from trimtab.planner.snapshot.joined_pods import join_pods
from trimtab.planner.snapshot.joined_rows import join_tables
from trimtab.planner.snapshot.pod_specs import read_pod_specs
from trimtab.planner.snapshot.sealing import complete
from trimtab.planner.snapshot.sharing import share
from trimtab.v1 import snapshot_pb2 as pb

_BYTES_OF_CELL: Final = 40
_BYTES_OF_POD: Final = 150
"""Memory of a pod's columns, some of which exist twice while they are joined."""


def parse_delta(data: bytes) -> pb.SnapshotDelta:
    """Return the message. Raises SnapshotMalformedError."""
    message = pb.SnapshotDelta()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise SnapshotMalformedError(f"these {len(data)} bytes are not a SnapshotDelta: {error}") from error
    return message


def apply_delta(
    base: Snapshot,
    delta: pb.SnapshotDelta,
    derive: Derive = build_always,
    limits: RequestLimits = UNLIMITED,
    read_specs: ReadSpecs = read_pod_specs,
) -> Snapshot:
    """Return the base with the delta's rows added or replaced and its deleted keys removed.

    The base is not changed; equal parts are shared with it (`trimtab.planner.snapshot.sharing`). derive : that of the
    base;
    read_specs : see `trimtab.planner.snapshot.decode.draft`.
    """
    changed = draft(delta.changed, limits, read_specs)
    limits.check()
    nodes = len(base.nodes.name) + len(base.templates.name) + len(changed.nodes.name) + len(changed.templates.name)
    width = len({*base.resources, *changed.resources})
    limits.reserve(_BYTES_OF_CELL * nodes * width + _BYTES_OF_POD * len(base.pods.spec), "the base, changed")
    dictionaries = join_dictionaries(base, changed, derive)
    tables = join_tables(base, changed, delta, dictionaries)
    pods, dangling = join_pods(base, changed, delta.deleted_pods, (dictionaries, tables), derive)
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
        slack_requests=(changed if delta.changed.HasField("slack_requests") else base).slack_requests,
        dangling=dangling,
    )
    shared = share(base, complete(share(base, joined), base))
    version = digest(shared, partial(_kept_digest, base, shared, derive))
    return base if version == base.version else shared._replace(version=version)


def _kept_digest(base: Snapshot, shared: Snapshot, derive: Derive, path: str, compute: Callable[[], bytes]) -> bytes:
    """Return the digest of a field; if the base has the same field, its digest is cached with the base."""
    field = attrgetter(path)
    return derive(f"digest of {path}", compute, of=(path,)) if field(shared) is field(base) else compute()
