"""The snapshot of a request, whichever door the cluster came through: bytes of a snapshot or delta, or objects.

A stream of parts is the header first, then the pieces of a snapshot in order, or Kubernetes objects. Of header and
snapshot only the announced size is read, and at most the announced bytes are held, which are bounded; objects are read
as they arrive, and their bytes are dropped. A snapshot depends only on what the request and those before it sent: a
caller whose base or whose objects are gone sends the whole cluster. Raises ServiceError, and the errors of the pure
packages. Thread-safe.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.rpc.errors import invalid_request
from trimtab.common.watched.cluster_objects import ClusterObjects, ClusterUpdate
from trimtab.common.watched.received_objects import ObjectChanges, ObjectReader, SharedParts
from trimtab.planner.model.execution import check_limits
from trimtab.planner.service.failures import (
    base_unknown,
    object_invalid,
    objects_too_large,
    snapshot_too_large,
    stream_invalid,
)
from trimtab.planner.service.measurement import Instruments, StopWatch
from trimtab.planner.service.session import CachedObjects, CachedSnapshot, Session
from trimtab.planner.snapshot.caches import SuccessorKey
from trimtab.planner.snapshot.decode import canonicalize, parse_snapshot
from trimtab.planner.snapshot.delta import apply_delta, parse_delta
from trimtab.planner.snapshot.pod_specs import SpecReader, SpecsAsSent
from trimtab.v1 import actuator_pb2, plan_pb2, planner_pb2
from trimtab.v1 import snapshot_pb2 as pb

MAX_PIECE_BYTES: Final = 1 << 20
MAX_OBJECTS_PART_BYTES: Final = 4 << 20
_HEADER_FACTOR: Final = 3
"""A state is parsed, and its columns are copied."""
_PARSED_FACTOR: Final = 5
"""A snapshot's bytes are joined, parsed and converted into sorted columns: 163 MB take 0.9 GiB."""


_BUILT_OBJECT_BYTES: Final = 1000
"""Memory to put an object into a store and into a snapshot."""


class ReceivedObjects(NamedTuple):
    """A cluster as objects: all of them, or those that have changed. shared : what the next request of the caller may
    share with this one; status : of the actuator, None = without one.
    """

    changes: ObjectChanges
    shared: SharedParts
    status: actuator_pb2.ActuatorStatus | None


Payload = bytes | ReceivedObjects
"""The cluster of a request: the bytes of a snapshot or delta, or objects."""


def share_nothing(request: plan_pb2.PlanRequest) -> SharedParts:
    """Return what a request without predecessor shares."""
    return SharedParts(annotations_read(request.settings))


class StreamLimits(NamedTuple):
    """snapshot_bytes, object_bytes : most bytes of a snapshot or delta, and of the objects of a request; check : raises
    when the request has no time left; shared : returns what a request shares with those before it.
    """

    snapshot_bytes: int
    object_bytes: int = 1 << 30
    check: Callable[[], None] = lambda: None
    shared: Callable[[plan_pb2.PlanRequest], SharedParts] = share_nothing


def reserve_for_reading(payload: Payload, reserve: Callable[[int, str], None]) -> None:
    """Reserve the memory to make a snapshot. A request that waits for its turn holds only what it has received."""
    if isinstance(payload, bytes):
        reserve(_PARSED_FACTOR * len(payload), "the snapshot as it is read")
    else:
        reserve(_BUILT_OBJECT_BYTES * len(payload.changes), "the snapshot of the objects")


def collect(
    parts: Iterable[planner_pb2.PlanRequestPart],
    limits: StreamLimits,
    reserve: Callable[[int, str], None],
    admit: Callable[[plan_pb2.PlanRequest], None] = lambda _: None,
) -> tuple[plan_pb2.PlanRequest, Payload]:
    """Return the header and the cluster.

    reserve : called before memory is allocated; admit : called with the header before anything else is received; raises
    to refuse the request.
    """
    stream = iter(parts)
    first = next(stream, None)
    if first is None:
        raise stream_invalid("the stream has no part; send the request first")
    if first.WhichOneof("part") != "request":
        raise stream_invalid("the first part must be the request, without its snapshot")
    request = first.request
    admit(request)
    reserve(_HEADER_FACTOR * request.ByteSize(), "the request's header")
    status = first.actuator_status if first.HasField("actuator_status") else None
    second = next(stream, None)
    if second is None and status is not None:
        return request, ReceivedObjects(ObjectChanges(), limits.shared(request), status)
    if second is not None and second.WhichOneof("part") == "objects":
        return request, _objects(request, status, chain([second], stream), limits, reserve)
    if status is not None:
        raise stream_invalid("actuator_status is sent with objects; a snapshot has actuation_status and node_groups")
    stream = iter(()) if second is None else chain([second], stream)
    announced, limit = request.snapshot_size_bytes, limits.snapshot_bytes
    if announced < 0:
        raise invalid_request(f"snapshot_size_bytes: {announced} is negative", field="snapshot_size_bytes")
    if announced > limit:
        raise snapshot_too_large(announced, limit)
    pieces = []
    for piece in _pieces(stream, announced):
        reserve(len(piece), "the snapshot's bytes")
        pieces.append(piece)
    return request, b"".join(pieces)


def _objects(
    request: plan_pb2.PlanRequest,
    status: actuator_pb2.ActuatorStatus | None,
    stream: Iterator[planner_pb2.PlanRequestPart],
    limits: StreamLimits,
    reserve: Callable[[int, str], None],
) -> ReceivedObjects:
    """Read objects part by part."""
    if request.snapshot_size_bytes:
        raise stream_invalid("snapshot_size_bytes announces a snapshot, and part 1 has objects; send 0 with objects")
    reader, total = ObjectReader(limits.shared(request), reserve, limits.check), 0
    for number, part in enumerate(stream, 1):
        if part.WhichOneof("part") != "objects":
            raise stream_invalid(f"part {number} of the stream has no objects, but the parts before it have")
        size = sum(map(len, part.objects.put))
        total += size
        if size > MAX_OBJECTS_PART_BYTES:
            raise stream_invalid(f"part {number} has objects of {size} bytes; send at most {MAX_OBJECTS_PART_BYTES}")
        if total > limits.object_bytes:
            raise objects_too_large(total, limits.object_bytes)
        if part.objects.delete and not request.base_version:
            raise stream_invalid(f"part {number} deletes objects, but the request has no base_version")
        try:
            reader.put(part.objects.put)
            for key in part.objects.delete:
                reader.delete(key.api_version, key.kind, key.namespace, key.name)
        except InvalidInputError as error:
            raise object_invalid(error, number) from None
    return ReceivedObjects(reader.changes, reader.shared, status)


def _pieces(stream: Iterator[planner_pb2.PlanRequestPart], announced: int) -> Iterator[bytes]:
    """Yield the checked pieces."""
    total = 0
    for expected, part in enumerate(stream):
        if part.WhichOneof("part") != "snapshot":
            raise stream_invalid(f"part {expected + 1} of the stream is not a piece of the snapshot")
        piece = part.snapshot
        if piece.index != expected:
            fault = "is repeated" if 0 <= piece.index < expected else "is too early"
            raise stream_invalid(f"piece {piece.index} {fault}; piece {expected} was expected")
        if not 1 <= len(piece.data) <= MAX_PIECE_BYTES:
            raise stream_invalid(f"piece {expected} has {len(piece.data)} bytes; send 1 to {MAX_PIECE_BYTES}")
        total += len(piece.data)
        if total > announced:
            raise stream_invalid(f"piece {expected} ends at byte {total}; snapshot_size_bytes announced {announced}")
        yield piece.data
    if total != announced:
        raise stream_invalid(f"the stream ended after {total} of {announced} announced bytes of the snapshot")


class SpecsAsSentKey(SuccessorKey[SpecsAsSent]):
    """The pod specs of the messages so far."""


class ReadSnapshot(NamedTuple):
    """A snapshot, and the request with the settings that its objects ask for. notes : on the objects."""

    cached: CachedSnapshot
    request: plan_pb2.PlanRequest
    notes: Sequence[str] = ()


def shared_parts(request: plan_pb2.PlanRequest, session: Session) -> SharedParts:
    """Return what the objects of a request share with those of the caller's requests before."""
    numbers, cached = annotations_read(request.settings), session.objects if request.base_version else None
    is_same = cached is not None and cached.objects.numbers == tuple(sorted(numbers))
    return cached.shared if cached is not None and is_same else SharedParts(numbers)


class SnapshotReader:
    """Reads the clusters of requests."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    def read(self, request: plan_pb2.PlanRequest, payload: Payload, session: Session, watch: StopWatch) -> ReadSnapshot:
        """Return the snapshot of a request."""
        if isinstance(payload, ReceivedObjects):
            return self._read_objects(request, payload, session, watch)
        if not request.base_version:
            with watch.stage("decode"):
                message = parse_snapshot(payload)
            return ReadSnapshot(self._whole(message, session, watch), request)
        base = self._base(request, session)
        if not payload and base.came_as_objects:
            nothing = ReceivedObjects(ObjectChanges(), shared_parts(request, session), None)
            return self._read_objects(request, nothing, session, watch)
        self._instruments.base("delta")
        if not payload:
            return ReadSnapshot(base, request)
        with watch.stage("decode"):
            delta = parse_delta(payload)
        return ReadSnapshot(self._changed(delta, base, session, watch), request)

    def _read_objects(
        self, request: plan_pb2.PlanRequest, received: ReceivedObjects, session: Session, watch: StopWatch
    ) -> ReadSnapshot:
        cached = CachedObjects(ClusterObjects(received.shared.numbers, check_limits), received.shared)
        if request.base_version:
            if session.objects is None or session.objects.objects.numbers != received.shared.numbers:
                raise self._unknown(request)
            cached = session.objects
        with cached.lock:
            if request.base_version not in (cached.version, cached.before):
                raise self._unknown(request)
            if request.base_version:
                self._base(request, session)
            with watch.stage("objects"):
                is_repeated = request.base_version != cached.version
                update = cached.objects.update(received.changes, received.status, is_repeated=is_repeated)
            try:
                snapshot = self._follow(cached, update, session, watch)
            except BaseException:
                # The objects are ahead of the snapshot: the caller sends all of them again.
                cached.snapshot, cached.before = None, ""
                raise
            snapshot.came_as_objects = True
            if is_repeated or snapshot is not cached.snapshot:
                cached.before = request.base_version
            cached.snapshot, session.objects = snapshot, cached
            settings = cached.objects.settings(request.settings, received.status)
        if settings is not request.settings:
            completed = plan_pb2.PlanRequest()
            completed.CopyFrom(request)
            completed.settings.CopyFrom(settings)
            request = completed
        return ReadSnapshot(snapshot, request, update.notes)

    def _follow(
        self, cached: CachedObjects, updated: ClusterUpdate, session: Session, watch: StopWatch
    ) -> CachedSnapshot:
        """Return the snapshot after an update of the objects."""
        update = updated.update
        if update.snapshot is not None:
            return self._whole(update.snapshot, session, watch)
        assert cached.snapshot is not None, "changes follow a whole snapshot"
        assert update.delta is not None
        self._instruments.base("delta")
        return cached.snapshot if update.is_empty else self._changed(update.delta, cached.snapshot, session, watch)

    def _whole(self, message: pb.ClusterSnapshot, session: Session, watch: StopWatch) -> CachedSnapshot:
        with watch.stage("columns"):
            snapshot = canonicalize(message, watch.limits)
        self._instruments.base("whole")
        return session.snapshots.get(snapshot.version) or CachedSnapshot(snapshot)

    def _changed(
        self, delta: pb.SnapshotDelta, base: CachedSnapshot, session: Session, watch: StopWatch
    ) -> CachedSnapshot:
        with watch.stage("columns"):
            specs = SpecReader(base.find(SpecsAsSentKey()))
            snapshot = apply_delta(base.snapshot, delta, base, watch.limits, specs.read)
        cached = session.snapshots.get(snapshot.version)
        if cached is None:
            cached = CachedSnapshot(snapshot, base)
            cached.put(SpecsAsSentKey(), specs.known)
        return cached

    def _base(self, request: plan_pb2.PlanRequest, session: Session) -> CachedSnapshot:
        base = session.snapshots.get(request.base_version)
        if base is None:
            raise self._unknown(request)
        return base

    def _unknown(self, request: plan_pb2.PlanRequest) -> Exception:
        self._instruments.base("unknown")
        return base_unknown(request)
