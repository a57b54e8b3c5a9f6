"""Repeated keys in a JSON object: a decoder takes the last one and silently drops the others. Checks in two steps,
because a full check costs more than decoding: it counts colons before and after a decoder has dropped repeated keys,
and checks key by key only if the counts differ.
"""

import json
from typing import Any

import msgspec
from msgspec import Raw

_DECODE = msgspec.json.Decoder().decode
_FIELDS = msgspec.json.Decoder(dict[str, Raw]).decode
_ENCODE = msgspec.json.Encoder().encode


class RepeatedKeyError(ValueError):
    """An object has a key twice."""


def may_repeat_keys(raw: Raw | bytes) -> bool:
    """Return whether any object of a JSON text may have a key twice. False is certain.

    Each key has one colon, and colons in strings are the same before and after, except where they are escaped.
    """
    text = bytes(raw)
    return count_colons(text) != count_unique_colons(text) or may_escape_colons(text)


def count_colons(text: bytes) -> int:
    """Return the number of colons in a JSON text: one for each key, and those in strings."""
    return text.count(b":")


def count_unique_colons(text: bytes) -> int:
    """Return the number of colons without those of repeated keys. Raises as msgspec does."""
    return _ENCODE(_DECODE(text)).count(b":")


def may_escape_colons(text: bytes) -> bool:
    """Return whether a colon in a JSON text may be written as an escape, which is not counted. False is certain."""
    # Most texts are done after the first two searches, which are fast.
    return b"\\" in text and b"\\u003" in text and (b"\\u003a" in text or b"\\u003A" in text)


def count_field_colons(text: bytes | memoryview, without: str) -> int:
    """Return the colons of the fields of a JSON object, as often as a decoder sees a field, but for those in the value
    of the field `without`.
    """
    fields = _FIELDS(text)
    values = (bytes(value).count(b":") for key, value in fields.items() if key != without)
    return sum(1 + key.count(":") for key in fields) + sum(values)


def refuse_repeated_keys(raw: Raw | bytes | memoryview) -> None:
    """Check every object of a JSON text. Raises RepeatedKeyError."""
    load_json(raw)


def load_json(text: str | Raw | bytes | memoryview) -> Any:
    """Return the value of a JSON text, key by key. Raises json.JSONDecodeError, RepeatedKeyError, RecursionError."""
    return json.loads(text if isinstance(text, str) else bytes(text), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"key {repeated!r} is given twice in one object")
    return built
