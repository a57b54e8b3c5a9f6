"""Join a stream of request parts into one request: the header first, then the cluster, as the snapshot's pieces in
order or as Kubernetes objects. Decides whether the parts form a request. Of header and snapshot it reads only the
announced size, and holds at most the announced bytes, which are bounded; objects are read as they arrive, and their
bytes are dropped. Raises ServiceError.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from trimtab.common.kubernetes.object_errors import InvalidInputError
from trimtab.common.objects.annotated_numbers import annotations_read
from trimtab.common.rpc.errors import invalid_request
from trimtab.common.watched.received_objects import ObjectChanges, ObjectReader, SharedParts
from trimtab.planner.service.failures import object_invalid, objects_too_large, snapshot_too_large, stream_invalid
from trimtab.v1 import actuator_pb2, planner_pb2
from trimtab.v1 import plan_pb2 as pb

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


def share_nothing(request: pb.PlanRequest) -> SharedParts:
    """Return what a request without predecessor shares."""
    return SharedParts(annotations_read(request.settings))


class StreamLimits(NamedTuple):
    """snapshot_bytes, object_bytes : most bytes of a snapshot or delta, and of the objects of a request; check : raises
    when the request has no time left; shared : returns what a request shares with those before it.
    """

    snapshot_bytes: int
    object_bytes: int = 1 << 30
    check: Callable[[], None] = lambda: None
    shared: Callable[[pb.PlanRequest], SharedParts] = share_nothing


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
    admit: Callable[[pb.PlanRequest], None] = lambda _: None,
) -> tuple[pb.PlanRequest, Payload]:
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
    announced, most = request.snapshot_size_bytes, limits.snapshot_bytes
    if announced < 0:
        raise invalid_request(f"snapshot_size_bytes: {announced} is negative", field="snapshot_size_bytes")
    if announced > most:
        raise snapshot_too_large(announced, most)
    pieces = []
    for piece in _pieces(stream, announced):
        reserve(len(piece), "the snapshot's bytes")
        pieces.append(piece)
    return request, b"".join(pieces)


def _objects(
    request: pb.PlanRequest,
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
