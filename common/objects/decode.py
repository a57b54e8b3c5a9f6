"""Kubernetes objects as JSON text or plain values into declared structs, one decoder per kind.

Lists are split into undecoded items; each item is then decoded once, by its kind. An object that cannot be decoded is
an error that names file, kind, name and field. Objects of other kinds are counted.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from trimtab.common.documents.strict_json import (
    RepeatedKeyError,
    count_colons,
    count_field_colons,
    may_escape_colons,
    may_repeat_keys,
    refuse_repeated_keys,
)
from trimtab.common.kubernetes.kinds.nodes import NodeGroupSpec
from trimtab.common.kubernetes.object_errors import FieldError, InvalidInputError, ObjectError
from trimtab.common.kubernetes.registry import OUR_GROUP, registered_kind
from trimtab.common.objects.objects import (
    Objects,
    is_read,
    kind_problem,
    name_of,
    version_problem,
)
from trimtab.common.objects.pod_texts import PodTexts

Advance = Callable[[float], None]
"""Called with the share of the current text that is decoded, 0 to 1."""

_BATCH = 128
"""Items decoded at a time: so few that what is made of them for checks stays in the processor's cache."""
_MOST_HEADS = 1000
"""Most beginnings of objects that are remembered."""
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of decoding: malformed or unexpected JSON, text that is not UTF-8, unlimited nesting."""
_HEAD = re.compile(
    rb'\{\s*"apiVersion"\s*:\s*"(?P<version>[^"\\]*)"\s*,\s*"kind"\s*:\s*"(?P<kind>[^"\\]*)"'
    rb'|\{\s*"kind"\s*:\s*"(?P<kind_first>[^"\\]*)"\s*,\s*"apiVersion"\s*:\s*"(?P<version_last>[^"\\]*)"'
)
"""The beginning of an object as kubectl prints it, or as Go encodes its own types."""
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_PATH = re.compile(r"^(.*?)(?: - at .*?`\$\.?(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_GROUP_FIELDS = ", ".join(info.encode_name for info in msgspec.structs.fields(NodeGroupSpec))
"""Fields of the one struct that forbids unknown fields."""
_REMEDY = "correct the object, or leave it out"


class _ObjectHead(Struct, rename="camel"):
    """The first fields of every object."""

    api_version: str | None = None
    kind: str | None = None


class _Document(Struct, rename="camel"):
    """An object, or a list of objects."""

    api_version: str | None = None
    kind: str | None = None
    items: list[Raw] | None = None


class _Name(Struct):
    name: Any = None
    namespace: Any = None


class _Named(Struct):
    metadata: _Name | None = None


@cache
def _decoder(struct: Hashable) -> Any:
    return msgspec.json.Decoder(struct)


_HEADS = msgspec.json.Decoder(_ObjectHead)
_DOCUMENTS = msgspec.json.Decoder(_Document)


def decode_objects(values: Iterable[Mapping[str, Any]], numbers: Iterable[str] = ()) -> Objects:
    """Decode plain objects and lists of them, as a YAML or JSON parser returns them.

    numbers : keys of the pods' annotations that hold numbers.
    Errors: ObjectError for a value that is not a Kubernetes object or has a field of the wrong type.
    """
    objects = Objects(numbers=tuple(sorted(set(numbers))))
    for value in values:
        add_value(value, "", objects)
    return objects


def add_text(text: bytes | memoryview, file: str, objects: Objects, advance: Advance | None = None) -> int:
    """Decode the first JSON document of a text, an object or a list, into `objects`; return its length in bytes.

    Errors: InputError, ObjectError.
    """
    length, document = _first_document(text, file)
    kind, api_version = document.kind or "", document.api_version or ""
    whole = text if length == len(text) else text[:length]
    if document.items is None and not _is_list(api_version, kind):
        _add_items([Raw(bytes(whole))], (api_version, kind), file, objects, None)
        return length
    items = document.items or []
    colons = _add_items(items, _items_kind(api_version, kind, objects), file, objects, advance)
    if count_colons(bytes(whole)) != colons + count_field_colons(whole, "items"):
        try:
            refuse_repeated_keys(whole)
        except RepeatedKeyError as error:
            raise _not_kubernetes(file, str(error)) from None
    return length


def _first_document(text: bytes | memoryview, file: str) -> tuple[int, _Document]:
    try:
        return len(text), _DOCUMENTS.decode(text)
    except _UNDECODABLE as error:
        more = _TRAILING.search(str(error))
        if more is None:
            raise _not_kubernetes(file, str(error)) from None
    # The position in the message is the one after the first extra byte.
    length = int(more[1]) - 1
    return length, _DOCUMENTS.decode(text[:length])


def add_value(value: Any, file: str, objects: Objects) -> None:
    """Convert one plain object, or a list of them, into `objects`. Errors: InputError, ObjectError."""
    if not isinstance(value, Mapping):
        raise _not_kubernetes(file, f"this is not an object but {type(value).__name__}")
    items, api_version, kind = value.get("items"), str(value.get("apiVersion") or ""), str(value.get("kind") or "")
    if items is None and not _is_list(api_version, kind):
        _convert(value, ("", ""), file, objects)
        return
    if not isinstance(items or [], list):
        raise _not_kubernetes(file, "`items` is not a list")
    expected = _items_kind(api_version, kind, objects)
    for item in items or []:
        _convert(item, expected, file, objects)


def _is_list(api_version: str, kind: str) -> bool:
    """Return whether this is a kind of list; its `items` may be null."""
    return kind == "List" or (kind.endswith("List") and is_read(api_version, kind.removesuffix("List")))


def _items_kind(api_version: str, kind: str, objects: Objects) -> tuple[str, str]:
    """Return (apiVersion, kind) of items without `kind`: a PodList has pods, items of a List have their own."""
    item_kind = kind.removesuffix("List") if kind not in ("", "List") else ""
    if item_kind and is_read(api_version, item_kind):
        objects.given.add(registered_kind(api_version, item_kind))
        objects.listed.add(registered_kind(api_version, item_kind))
    return (api_version, item_kind) if item_kind else ("", "")


def _add_items(
    items: list[Raw], expected: tuple[str, str], file: str, objects: Objects, advance: Advance | None
) -> int:
    """Decode the items of a list into `objects`; return the number of colons in them."""
    reader = ItemReader(expected, file, objects)
    for start in range(0, len(items), _BATCH):
        reader.add(items[start : start + _BATCH])
        if advance is not None:
            advance(min(start + _BATCH, len(items)) / len(items))
    return reader.colons


def is_list_text(text: bytes) -> bool:
    """Return whether a text is, by its first fields, a list of objects, or nothing that has a kind."""
    head = _HEAD.match(text)
    if head is not None:
        kind = _kind_in(head)
        return not kind or kind.endswith(b"List")
    name = _kind_of(Raw(text), None, ("", ""), "")[1]
    return not name or name.endswith("List")


class ItemReader:
    """Decodes items of one file. expected : (apiVersion, kind) of items without `kind`; colons : in the items."""

    def __init__(self, expected: tuple[str, str], file: str, objects: Objects, pods: PodTexts | None = None) -> None:
        self._expected, self._file, self._objects = expected, file, objects
        self._pods = pods or PodTexts(objects.struct("Pod"))
        self._heads: dict[bytes, str] = {}
        """The kind of objects that are read, by their first bytes."""
        self.colons = 0

    def add(self, batch: list[Raw]) -> None:
        """Decode some items. Errors: InputError, ObjectError."""
        texts: dict[str, list[Raw]] = {}
        for raw in batch:
            texts.setdefault(self._kind_if_read(raw), []).append(raw)
        for kind, raws in texts.items():
            joined = b"".join(raws)
            colons = count_colons(joined)
            self.colons += colons
            decoded = self._pods.decode(raws, colons) if kind == "Pod" and not may_escape_colons(joined) else None
            if kind:
                self._objects.add(
                    kind, [self._decoded(kind, raw) for raw in raws] if decoded is None else decoded, self._file
                )

    def _kind_if_read(self, raw: Raw) -> str:
        """Return the kind of an item; "" for one that is skipped."""
        head = _HEAD.match(memoryview(raw))
        known = self._heads.get(head[0]) if head is not None else None
        if known is not None:
            return known
        api_version, kind = _kind_of(raw, head, self._expected, self._file)
        if not is_read(api_version, kind):
            skip(api_version, kind, self._file, self._objects)
            return ""
        kind = registered_kind(api_version, kind)
        check_version(api_version, kind, self._file, self._objects)
        if head is not None and len(self._heads) < _MOST_HEADS:
            self._heads[head[0]] = kind
        return kind

    def _decoded(self, kind: str, raw: Raw) -> Any:
        """Return one object."""
        try:
            decoded = _decoder(cast(Hashable, self._objects.struct(kind))).decode(raw)
            if may_repeat_keys(raw):
                refuse_repeated_keys(raw)
        except RepeatedKeyError as error:
            raise _field_error(self._file, kind, _named(raw), str(error)) from None
        except _UNDECODABLE as error:
            raise _wrong_field(self._file, kind, raw, error) from None
        return decoded


def _kind_in(head: re.Match[bytes]) -> bytes:
    return head["kind"] or head["kind_first"] or b""


def _kind_of(raw: Raw, head: re.Match[bytes] | None, expected: tuple[str, str], file: str) -> tuple[str, str]:
    if head is not None:
        version = head["version"] or head["version_last"] or b""
        return version.decode(errors="replace"), _kind_in(head).decode(errors="replace")
    try:
        slow = _HEADS.decode(raw)
    except _UNDECODABLE as error:
        raise _not_kubernetes(file, str(error)) from None
    return (slow.api_version or "", slow.kind) if slow.kind else expected


def _convert(item: Any, expected: tuple[str, str], file: str, objects: Objects) -> None:
    if not isinstance(item, Mapping):
        raise _not_kubernetes(file, f"this is not an object but {type(item).__name__}")
    api_version, kind = str(item.get("apiVersion") or ""), str(item.get("kind") or "")
    if not kind:
        api_version, kind = expected
    if not is_read(api_version, kind):
        skip(api_version, kind, file, objects)
        return
    kind = registered_kind(api_version, kind)
    check_version(api_version, kind, file, objects)
    try:
        decoded = msgspec.convert(item, objects.struct(kind))
    except (msgspec.ValidationError, RecursionError) as error:
        meta = item.get("metadata")
        named = _Named(_Name(meta.get("name"), meta.get("namespace")) if isinstance(meta, Mapping) else None)
        raise _field_error(file, kind, named, str(error)) from None
    objects.add(kind, [decoded], file)


def check_version(api_version: str, kind: str, file: str, objects: Objects) -> None:
    """Check an object's version: an unknown version of our own kinds is an error, of other kinds it is noted."""
    problem = version_problem(api_version, kind)
    if not problem:
        return
    if api_version.startswith(f"{OUR_GROUP}/"):
        raise _not_kubernetes(file, problem)
    note = f"{problem}; it is read as the newest of them: fields that only this version has do not count"
    if note not in objects.notes:
        objects.notes.append(note)


def skip(api_version: str, kind: str, file: str, objects: Objects) -> None:
    """Count an object that is not read. Errors: InputError for one without kind, or of our own group."""
    if not kind:
        raise _not_kubernetes(file, "an object has no `kind`")
    problem = kind_problem(api_version, kind) if f"{api_version} {kind}" not in objects.skipped else ""
    if problem and api_version.startswith(f"{OUR_GROUP}/"):
        raise _not_kubernetes(file, problem)
    if problem:
        objects.notes.append(problem)
    objects.skipped[f"{api_version} {kind}"] += 1


def _not_kubernetes(file: str, problem: str) -> InvalidInputError:
    where = f"{file}: " if file else ""
    return InvalidInputError(
        f"{where}not Kubernetes objects: {problem}; give what `kubectl get -o json` or `-o yaml` prints, or a recording"
    )


def _wrong_field(file: str, kind: str, raw: Raw, error: Exception) -> ObjectError | InvalidInputError:
    if not isinstance(error, msgspec.ValidationError):
        return _not_kubernetes(file, str(error))
    return _field_error(file, kind, _named(raw), str(error))


def _named(raw: Raw) -> _Named:
    """Return the name of an object, as far as it can be decoded."""
    try:
        return msgspec.json.decode(raw, type=_Named)
    except _UNDECODABLE:
        return _Named()


def _field_error(file: str, kind: str, named: _Named, message: str) -> ObjectError:
    match = _PATH.match(message)
    problem, path = (match[1], match[2] or "") if match else (message, "")
    unknown = _UNKNOWN.match(problem)
    if unknown is not None:
        path, problem = f"{path}.{unknown[1]}", f"there is no such field; {kind} has {_GROUP_FIELDS} there"
    return ObjectError(file, kind, name_of(kind, named), FieldError(path, problem, _REMEDY))
