"""Apply a delta to a snapshot; the result equals, bit by bit, the new snapshot sent in full.

Both sides are brought into canonical form; their dictionaries are merged in order without sorting again, rows are taken
from one side or the other, and unused entries are dropped as for a full snapshot. Cost: one copy of the columns, and
O(changes * log rows). Raises SnapshotError, SnapshotMalformedError.
"""

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Final

from google.protobuf.message import DecodeError

from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.snapshot.caches import UNCACHED, SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.checks import SnapshotMalformedError
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.planner.snapshot.decode import ReadSpecs, draft
from trimtab.planner.snapshot.digest import digest, digest_of
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
    cache: SnapshotCache = UNCACHED,
    limits: RequestLimits = UNLIMITED,
    read_specs: ReadSpecs = read_pod_specs,
) -> Snapshot:
    """Return the base with the delta's rows added or replaced and its deleted keys removed.

    The base is not changed; equal parts are shared with it (`trimtab.planner.snapshot.sharing`). cache : that of the
    base; read_specs : see `trimtab.planner.snapshot.decode.draft`.
    """
    changed = draft(delta.changed, limits, read_specs)
    limits.check()
    nodes = len(base.nodes.name) + len(base.templates.name) + len(changed.nodes.name) + len(changed.templates.name)
    width = len({*base.resources, *changed.resources})
    limits.reserve(_BYTES_OF_CELL * nodes * width + _BYTES_OF_POD * len(base.pods.spec), "the base, changed")
    dictionaries = join_dictionaries(base, changed, cache)
    tables = join_tables(base, changed, delta, dictionaries)
    pods, dangling = join_pods(base, changed, delta.deleted_pods, dictionaries, tables, cache)
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
        devices=(changed if delta.changed.HasField("devices") else base).devices,
        capacity_requests=(changed if delta.changed.HasField("capacity_requests") else base).capacity_requests,
        pod_groups=tables.pod_groups,
        dangling=dangling,
    )
    shared = share(base, complete(share(base, joined), base))
    version = digest(shared, partial(_kept_digest, base, shared, cache))
    return base if version == base.version else shared._replace(version=version)


@dataclass(frozen=True)
class FieldDigestKey(SnapshotKey[bytes]):
    """The digest of a field. path : of the field."""

    path: str


def _kept_digest(base: Snapshot, shared: Snapshot, cache: SnapshotCache, path: str, value: object) -> bytes:
    """Return the digest of a field; if the base has the same field, its digest is cached with the base."""
    field = attrgetter(path)
    if field(shared) is not field(base):
        return digest_of(value)
    return cache.get(FieldDigestKey(path), base, lambda view: digest_of(field(view)))
