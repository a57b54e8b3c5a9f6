"""Kubernetes' protobuf framing: the envelope of a body, the pages of a list, the frames of a watch.

Decides where a message ends. Never reads more of an object than its metadata. Items of a list are returned as bytes, so
that they can be parsed one by one.

Source: apimachinery, runtime/serializer/protobuf (the prefix "k8s\\0" and `Unknown`) and streaming framing (4 bytes of
length, big endian, before each event).
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from trimtab.common.kubernetes.errors import ApiError, MalformedAnswerError
from trimtab.k8s.v1 import meta_pb2

PROTOBUF = "application/vnd.kubernetes.protobuf"
WATCH = PROTOBUF + ";stream=watch"
MAGIC = b"k8s\0"
LONGEST_FRAME = 64 << 20
"""Bytes; an object of Kubernetes has at most a few MiB."""

MOST_RETRY_AFTER_S = 3600
"""A longer pause that a server asks for is reduced to this one. Callers have narrower limits."""

M = TypeVar("M", bound=Message)


class ListPage(NamedTuple):
    """A page of a list: its objects, encoded; the version to watch from; the token of the next page, "" = last.
    `items` : the objects; `resource_version` : the version; `next_page` : the token.
    """

    items: list[bytes]
    resource_version: str
    next_page: str


class Frame(NamedTuple):
    """An event of a watch: type, kind, object (encoded). `type` : as Kubernetes names it, such as "ADDED"; `raw` : the
    object.
    """

    type: str
    kind: str
    raw: bytes


def parsed(message: type[M], raw: bytes) -> M:
    """Return a message. Raises MalformedAnswerError."""
    try:
        return message.FromString(raw)
    except DecodeError as error:
        raise MalformedAnswerError(f"{len(raw)} bytes are no {message.DESCRIPTOR.name}: {error}") from error


def unwrap(body: bytes) -> meta_pb2.Unknown:
    """Return the envelope of a body. Raises MalformedAnswerError."""
    if not body.startswith(MAGIC):
        start = body[:60].decode("utf-8", "replace")
        raise MalformedAnswerError(f"an answer is not in Kubernetes' protobuf encoding; it begins with {start!r}")
    return parsed(meta_pb2.Unknown, body[len(MAGIC) :])


def read_page(body: bytes) -> ListPage:
    """Return a page of a list. Raises MalformedAnswerError."""
    page = parsed(meta_pb2.RawList, unwrap(body).raw)
    return ListPage(list(page.items), page.metadata.resource_version, getattr(page.metadata, "continue"))


def read_frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the events in a byte stream; an incomplete last one is dropped. Raises MalformedAnswerError."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        position = 0
        while len(buffer) - position >= 4:
            (length,) = struct.unpack_from(">I", buffer, position)
            if length > LONGEST_FRAME:
                raise MalformedAnswerError(
                    f"a watch event of {length} bytes is announced; the limit is {LONGEST_FRAME}"
                )
            if len(buffer) - position - 4 < length:
                break
            yield _frame(bytes(buffer[position + 4 : position + 4 + length]))
            position += 4 + length
        del buffer[:position]


def resource_version_of(raw: bytes) -> str:
    """Return `metadata.resourceVersion` of an encoded object."""
    return parsed(meta_pb2.ObjectHead, raw).metadata.resource_version


def read_error(status: int, body: bytes, retry_after: str = "") -> ApiError:
    """Return the error in an answer's body: a `Status` as protobuf or JSON, or plain text."""
    readers: tuple[Callable[[bytes], meta_pb2.Status | None], ...] = (_protobuf_status, _json_status)
    hint_s = _seconds(retry_after)
    for reader in readers:
        answer = reader(body)
        if answer is not None:
            return status_error(answer, status, hint_s)
    return ApiError(status, "", body[:300].decode("utf-8", "replace").strip(), hint_s)


def status_error(answer: meta_pb2.Status, status: int = 0, hint_s: float | None = None) -> ApiError:
    """Return a `Status` as an error; the longer hint of header (`hint_s`) and body counts."""
    told_s = float(min(max(answer.details.retry_after_seconds, 0), MOST_RETRY_AFTER_S)) or None
    hint_s = max(filter(None, (hint_s, told_s)), default=hint_s)
    about = (answer.details.kind, answer.details.name)
    error = ApiError(answer.code or status, answer.reason, answer.message, hint_s, about)
    error.causes = frozenset(cause.reason for cause in answer.details.causes)
    return error


def _seconds(retry_after: str) -> float | None:
    """Return a Retry-After header that is a number of seconds, bounded; a date counts as no hint."""
    if not (retry_after.isascii() and retry_after.isdigit()):
        return None
    return float(min(int(retry_after[:10]), MOST_RETRY_AFTER_S))


def _frame(event: bytes) -> Frame:
    watched = parsed(meta_pb2.WatchEvent, event)
    inside = unwrap(watched.object.raw)
    return Frame(watched.type, inside.type_meta.kind, inside.raw)


def _protobuf_status(body: bytes) -> meta_pb2.Status | None:
    try:
        return parsed(meta_pb2.Status, unwrap(body).raw)
    except MalformedAnswerError:
        return None


class _Cause(msgspec.Struct):
    reason: str = ""


class _Details(msgspec.Struct):
    name: str = ""
    kind: str = ""
    causes: list[_Cause] | None = None
    seconds: int = msgspec.field(default=0, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


def _json_status(body: bytes) -> meta_pb2.Status | None:
    try:
        decoded = msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    given = decoded.details or _Details()
    causes = [meta_pb2.StatusCause(reason=cause.reason) for cause in given.causes or ()]
    details = meta_pb2.StatusDetails(name=given.name, kind=given.kind, causes=causes, retry_after_seconds=given.seconds)
    return meta_pb2.Status(message=decoded.message, reason=decoded.reason, code=decoded.code, details=details)
