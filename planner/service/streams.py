"""Join a stream of request parts into one request: the header first, then the snapshot's pieces in order. Decides
whether the parts form a request; of header and snapshot it reads only the announced size. Holds at most the announced
bytes, which are bounded. Raises ServiceError.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from trimtab.common.rpc.errors import invalid_request
from trimtab.planner.service.failures import snapshot_too_large, stream_invalid
from trimtab.v1 import plan_pb2 as pb

MAX_PIECE_BYTES: Final = 1 << 20
_HEADER_FACTOR: Final = 3
"""A state is parsed, and its columns are copied."""
_PARSED_FACTOR: Final = 5
"""A snapshot's bytes are joined, parsed and converted into sorted columns: 163 MB take 0.9 GiB."""


def reserve_for_reading(payload: bytes, reserve: Callable[[int, str], None]) -> None:
    """Reserve the memory to read a snapshot's bytes. A request that waits for its turn holds only its bytes."""
    reserve(_PARSED_FACTOR * len(payload), "the snapshot as it is read")


def collect(
    parts: Iterable[pb.PlanRequestPart],
    most: int,
    reserve: Callable[[int, str], None],
    admit: Callable[[pb.PlanRequest], None] = lambda _: None,
) -> tuple[pb.PlanRequest, bytes]:
    """Return the header and the snapshot's bytes, at most `most`.

    reserve : called before memory is allocated for the bytes; admit : called with the header before anything else is
    received; raises to refuse the request.
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
    announced = request.snapshot_size_bytes
    if announced < 0:
        raise invalid_request(f"snapshot_size_bytes: {announced} is negative", field="snapshot_size_bytes")
    if announced > most:
        raise snapshot_too_large(announced, most)
    pieces = []
    for piece in _pieces(stream, announced):
        reserve(len(piece), "the snapshot's bytes")
        pieces.append(piece)
    return request, b"".join(pieces)


def _pieces(stream: Iterator[pb.PlanRequestPart], announced: int) -> Iterator[bytes]:
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
