"""The API server's JSON: the pages of a list, the lines of a watch. That of all kinds but pods.

Decides where an object ends. Never reads more of an object than its metadata. As `envelope`, which is for Kubernetes'
protobuf encoding. Source: Kubernetes API concepts, "Efficient detection of changes" (one JSON document a line).
"""

import threading
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, cast, get_args

import msgspec

from trimtab.common.kubernetes.envelope import LONGEST_FRAME, Frame, ListPage
from trimtab.common.kubernetes.errors import MalformedAnswerError

JSON = "application/json"


T = TypeVar("T")


class ListMeta(msgspec.Struct, rename="camel"):
    """`metadata` of a list: its version, and the token of its next page, "" = last."""

    resource_version: str = ""
    next_page: str = msgspec.field(default="", name="continue")


class ObjectList(msgspec.Struct, Generic[T]):
    """A page of a list of objects."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None

    @property
    def next_page(self) -> str:
        """Return the token of the next page; "" = this is the last one."""
        return self.metadata.next_page


class _FrameHead(msgspec.Struct):
    kind: str = ""
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


def read_page(body: bytes) -> ListPage:
    """Return a page of a list. Raises MalformedAnswerError."""
    page = decode(ObjectList[msgspec.Raw], body)
    items = [bytes(item) for item in page.items or ()]
    return ListPage(items, page.metadata.resource_version, page.next_page)


def read_frames(chunks: Iterable[bytes]) -> Iterator[Frame]:
    """Yield the events in a byte stream; an incomplete last one is dropped. Raises MalformedAnswerError."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LONGEST_FRAME:
            raise MalformedAnswerError(f"a watch event has more than {LONGEST_FRAME} bytes, the limit")
        for line in lines:
            if line.strip():
                event = decode(_WatchEvent, line)
                yield Frame(event.type, decode(_FrameHead, event.object).kind, bytes(event.object))


def resource_version_of(raw: bytes) -> str:
    """Return `metadata.resourceVersion` of an object."""
    return decode(_FrameHead, raw).metadata.resource_version


def decode(kind: type[T], raw: bytes | msgspec.Raw, source: str = "") -> T:
    """Return an answer, or an object in it, as a struct; `source` : where it is from, for the message.

    Raises MalformedAnswerError, which names the field.
    """
    try:
        decoded: T = decoder(kind).decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        subject = source or f"an answer of {len(bytes(raw))} bytes"
        raise MalformedAnswerError(f"{subject}: not the JSON of an API server's {_name(kind)}: {error}") from error
    return decoded


def decoder(kind: type[T]) -> "msgspec.json.Decoder[T]":
    """Return the decoder of a struct, or of a list of them; made once.

    One thread makes decoders at a time: msgspec (0.22) shares what it knows of a struct before it is complete,
    and a second thread that decodes the same struct meanwhile ends the process with a segmentation fault.
    """
    found = _decoders.get(kind)
    if found is None:
        with _making:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return cast("msgspec.json.Decoder[T]", found)


_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}
_making = threading.Lock()


def _name(kind: Any) -> str:
    """Return the name of a struct; "list of Pod" for a list of them."""
    items = get_args(kind)
    return f"list of {items[0].__name__}" if items else str(kind.__name__)
