"""The API server's JSON: the pages of a list, the lines of a watch. Kinds of CustomResourceDefinitions have no other.

Decides where an object ends. Never reads more of an object than its metadata. As `envelope`, which is for Kubernetes'
protobuf encoding. Source: Kubernetes API concepts, "Efficient detection of changes" (one JSON document a line).
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from trimtab.clients.kubernetes.envelope import LONGEST_FRAME, Frame, Page, status_error
from trimtab.clients.kubernetes.errors import ApiError, MalformedAnswerError
from trimtab.k8s.v1 import meta_pb2

JSON = "application/json"


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    next_page: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct):
    kind: str = ""
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""


T = TypeVar("T", _List, _Head, _Event, _Status)


def read_page(body: bytes) -> Page:
    """Return a page of a list. Errors: MalformedAnswerError."""
    page = _decoded(_List, body)
    items = [bytes(item) for item in page.items or ()]
    return Page(items, page.metadata.resource_version, page.metadata.next_page)


def read_frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the events in a byte stream; an incomplete last one is dropped. Errors: MalformedAnswerError."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_FRAME:
            raise MalformedAnswerError(f"a watch event has more than {LONGEST_FRAME} bytes, the limit")
        for line in lines:
            if line.strip():
                event = _decoded(_Event, line)
                yield Frame(event.type, _decoded(_Head, event.object).kind, bytes(event.object))


def resource_version_of(raw: bytes) -> str:
    """Return `metadata.resourceVersion` of an object."""
    return _decoded(_Head, raw).metadata.resource_version


def error_of(raw: bytes) -> ApiError:
    """Return a `Status` as an error."""
    found = _decoded(_Status, raw)
    return status_error(meta_pb2.Status(code=found.code, reason=found.reason, message=found.message))


def _decoded(kind: type[T], raw: bytes | msgspec.Raw) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedAnswerError(f"{len(bytes(raw))} bytes are not JSON of the API server: {error}") from error
