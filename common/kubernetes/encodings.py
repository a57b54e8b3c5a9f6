"""The two encodings in which kinds of objects are listed and watched."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from trimtab.common.kubernetes import envelope, json_envelope
from trimtab.common.kubernetes.envelope import Frame, ListPage
from trimtab.common.kubernetes.errors import ApiError
from trimtab.k8s.v1 import meta_pb2


class Encoding(NamedTuple):
    """How answers are requested and read. All functions raise MalformedAnswerError."""

    # Media types of lists and watches.
    listed_as: str
    watched_as: str
    read_page: Callable[[bytes], ListPage]
    read_frames: Callable[[Iterable[bytes]], Iterator[Frame]]
    # From an encoded object to `metadata.resourceVersion`.
    version_of: Callable[[bytes], str]
    # From an encoded `Status` to an error.
    error_of: Callable[[bytes], ApiError]


def _protobuf_error(raw: bytes) -> ApiError:
    return envelope.status_error(envelope.parsed(meta_pb2.Status, raw))


PROTOBUF: Final = Encoding(
    envelope.PROTOBUF,
    envelope.WATCH,
    envelope.read_page,
    envelope.read_frames,
    envelope.resource_version_of,
    _protobuf_error,
)
"""For pods."""
JSON: Final = Encoding(
    json_envelope.JSON,
    json_envelope.JSON,
    json_envelope.read_page,
    json_envelope.read_frames,
    json_envelope.resource_version_of,
    partial(envelope.read_error, 0),
)
"""For all other kinds."""
