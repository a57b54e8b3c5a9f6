"""Kubernetes objects as JSON text or plain values into declared structs, one decoder per kind.

Lists are cut into their items without decoding them; each item is then decoded once, by its kind. What cannot be
decoded is an error that names file, kind, name and field; kinds that are not read are counted.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from clients.kubernetes_objects.errors import FieldError, InputError, ObjectError
from clients.kubernetes_objects.kinds.nodes import NodeGroupSpec
from clients.kubernetes_objects.objects import STRUCTS, Objects, is_read, name_of

Advance = Callable[[float], None]
"""Called with the share of the current text that is decoded, 0 to 1."""

_BATCH = 2048
_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises: malformed or unexpected JSON, text that is not UTF-8, nesting without end."""
_HEAD = re.compile(rb'\{\s*"apiVersion"\s*:\s*"([^"\\]*)"\s*,\s*"kind"\s*:\s*"([^"\\]*)"')
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_PATH = re.compile(r"^(.*?)(?: - at .*?`\$\.?(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_GROUP_FIELDS = ", ".join(info.encode_name for info in msgspec.structs.fields(NodeGroupSpec))
"""Of the one struct that takes no fields but its own."""
_REMEDY = "correct the object, or leave it out"


class _Head(Struct, rename="camel"):
    """What every object begins with."""

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


_DECODERS = {kind: msgspec.json.Decoder(struct) for kind, struct in STRUCTS.items()}
_HEADS = msgspec.json.Decoder(_Head)
_DOCUMENTS = msgspec.json.Decoder(_Document)


def decode_objects(values: Iterable[Mapping[str, Any]]) -> Objects:
    """Return plain objects (and lists of them), as a YAML or JSON parser gives them, decoded.

    Errors: ObjectError for what is no Kubernetes object or has a field of the wrong type.
    """
    objects = Objects()
    for value in values:
        add_value(value, "", objects)
    return objects


def add_text(text: bytes | memoryview, file: str, objects: Objects, advance: Advance | None = None) -> int:
    """Decode the first JSON document of a text, an object or a list, into `objects`; return its length in bytes.

    Errors: InputError, ObjectError.
    """
    length, document = _first_document(text, file)
    kind, api_version = document.kind or "", document.api_version or ""
    if document.items is None and not _is_list(api_version, kind):
        _add_items([Raw(bytes(text[:length]))], (api_version, kind), file, objects, None)
    else:
        _add_items(document.items or [], _items_kind(api_version, kind, objects), file, objects, advance)
    return length


def _first_document(text: bytes | memoryview, file: str) -> tuple[int, _Document]:
    try:
        return len(text), _DOCUMENTS.decode(text)
    except _UNDECODABLE as error:
        more = _TRAILING.search(str(error))
        if more is None:
            raise _not_kubernetes(file, str(error)) from None
    # The position named is the one after the first byte too many.
    length = int(more[1]) - 1
    return length, _DOCUMENTS.decode(text[:length])


def add_value(value: Any, file: str, objects: Objects) -> None:
    """Convert one plain object, or a list of them, into `objects`. Errors: InputError, ObjectError."""
    if not isinstance(value, Mapping):
        raise _not_kubernetes(file, f"a {type(value).__name__} is no object")
    items, api_version, kind = value.get("items"), str(value.get("apiVersion") or ""), str(value.get("kind") or "")
    if items is None and not _is_list(api_version, kind):
        _convert(value, ("", ""), file, objects)
        return
    if not isinstance(items or [], list):
        raise _not_kubernetes(file, "`items` is no list")
    expected = _items_kind(api_version, kind, objects)
    for item in items or []:
        _convert(item, expected, file, objects)


def _is_list(api_version: str, kind: str) -> bool:
    """Say whether this is a kind of list, which may have null for no items."""
    return kind == "List" or (kind.endswith("List") and is_read(api_version, kind.removesuffix("List")))


def _items_kind(api_version: str, kind: str, objects: Objects) -> tuple[str, str]:
    """What items without a kind of their own are: those of a PodList are pods; those of a List say it themselves."""
    item_kind = kind.removesuffix("List") if kind not in ("", "List") else ""
    if item_kind and is_read(api_version, item_kind):
        objects.given.add(item_kind)
    return (api_version, item_kind) if item_kind else ("", "")


def _add_items(
    items: list[Raw], expected: tuple[str, str], file: str, objects: Objects, advance: Advance | None
) -> None:
    for start in range(0, len(items), _BATCH):
        batch: dict[str, list[Any]] = {}
        for i in range(start, min(start + _BATCH, len(items))):
            raw = items[i]
            api_version, kind = _kind_of(raw, expected, file)
            if not is_read(api_version, kind):
                _skip(api_version, kind, file, objects)
                continue
            try:
                batch.setdefault(kind, []).append(_DECODERS[kind].decode(raw))
            except _UNDECODABLE as error:
                raise _wrong_field(file, kind, raw, error) from None
        for kind, decoded in batch.items():
            objects.add(kind, decoded, file)
        if advance is not None:
            advance(min(start + _BATCH, len(items)) / len(items))


def _kind_of(raw: Raw, expected: tuple[str, str], file: str) -> tuple[str, str]:
    head = _HEAD.match(memoryview(raw))
    if head is not None:
        return head[1].decode(errors="replace"), head[2].decode(errors="replace")
    try:
        slow = _HEADS.decode(raw)
    except _UNDECODABLE as error:
        raise _not_kubernetes(file, str(error)) from None
    return (slow.api_version or "", slow.kind) if slow.kind else expected


def _convert(item: Any, expected: tuple[str, str], file: str, objects: Objects) -> None:
    if not isinstance(item, Mapping):
        raise _not_kubernetes(file, f"a {type(item).__name__} is no object")
    api_version, kind = str(item.get("apiVersion") or ""), str(item.get("kind") or "")
    if not kind:
        api_version, kind = expected
    if not is_read(api_version, kind):
        _skip(api_version, kind, file, objects)
        return
    try:
        decoded = msgspec.convert(item, STRUCTS[kind])
    except (msgspec.ValidationError, RecursionError) as error:
        meta = item.get("metadata")
        named = _Named(_Name(meta.get("name"), meta.get("namespace")) if isinstance(meta, Mapping) else None)
        raise _field_error(file, kind, named, str(error)) from None
    objects.add(kind, [decoded], file)


def _skip(api_version: str, kind: str, file: str, objects: Objects) -> None:
    if not kind:
        raise _not_kubernetes(file, "an object has no `kind`")
    objects.skipped[f"{api_version} {kind}"] += 1


def _not_kubernetes(file: str, problem: str) -> InputError:
    where = f"{file}: " if file else ""
    return InputError(
        f"{where}not Kubernetes objects: {problem}; give what `kubectl get -o json` or `-o yaml` prints, or a recording"
    )


def _wrong_field(file: str, kind: str, raw: Raw, error: Exception) -> ObjectError | InputError:
    if not isinstance(error, msgspec.ValidationError):
        return _not_kubernetes(file, str(error))
    try:
        named = msgspec.json.decode(raw, type=_Named)
    except _UNDECODABLE:
        named = _Named()
    return _field_error(file, kind, named, str(error))


def _field_error(file: str, kind: str, named: _Named, message: str) -> ObjectError:
    match = _PATH.match(message)
    problem, path = (match[1], match[2] or "") if match else (message, "")
    unknown = _UNKNOWN.match(problem)
    if unknown is not None:
        path, problem = f"{path}.{unknown[1]}", f"there is no such field; {kind} has {_GROUP_FIELDS} there"
    return ObjectError(file, kind, name_of(kind, named), FieldError(path, problem, _REMEDY))
