"""A stream of request parts into one request: header first, then the snapshot's pieces in order.

Decides whether the parts make a request; never looks into header or snapshot but for the announced size. Holds at most
the announced bytes, which are bounded. Raises ServiceError.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from trimtab.v1 import plan_pb2 as pb

from clients.transport.errors import invalid_request
from planner.service.failures import snapshot_too_large, stream_invalid

MAX_PIECE_BYTES: Final = 1 << 20


def collect(parts: Iterable[pb.PlanRequestPart], most: int) -> tuple[pb.PlanRequest, bytes]:
    """Return the header, and the snapshot's bytes, of which at most `most` are accepted."""
    stream = iter(parts)
    first = next(stream, None)
    if first is None:
        raise stream_invalid("the stream has no part; send the request first")
    if first.WhichOneof("part") != "request":
        raise stream_invalid("the first part must be the request, without its snapshot")
    request = first.request
    announced = request.snapshot_size_bytes
    if announced < 0:
        raise invalid_request(f"snapshot_size_bytes: {announced} is negative", field="snapshot_size_bytes")
    if announced > most:
        raise snapshot_too_large(announced, most)
    return request, b"".join(_pieces(stream, announced))


def _pieces(stream: Iterator[pb.PlanRequestPart], announced: int) -> Iterator[bytes]:
    """Yield the pieces, each checked."""
    total = 0
    for expected, part in enumerate(stream):
        if part.WhichOneof("part") != "snapshot":
            raise stream_invalid(f"part {expected + 1} of the stream is no piece of the snapshot")
        piece = part.snapshot
        if piece.index != expected:
            fault = "came again" if 0 <= piece.index < expected else "came too early"
            raise stream_invalid(f"piece {piece.index} {fault}; piece {expected} was due")
        if not 1 <= len(piece.data) <= MAX_PIECE_BYTES:
            raise stream_invalid(f"piece {expected} has {len(piece.data)} bytes; send 1 to {MAX_PIECE_BYTES}")
        total += len(piece.data)
        if total > announced:
            raise stream_invalid(f"piece {expected} ends at byte {total}; snapshot_size_bytes announced {announced}")
        yield piece.data
    if total != announced:
        raise stream_invalid(f"the stream ended after {total} of {announced} announced bytes of the snapshot")
