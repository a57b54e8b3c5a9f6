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
    return text.count(b":") != _ENCODE(_DECODE(text)).count(b":") or b"\\u003a" in text or b"\\u003A" in text


def may_repeat_fields(text: bytes) -> bool:
    """Return whether a JSON object itself, not its values, may have a key twice. False is certain."""
    fields = _FIELDS(text)
    return text.count(b":") != sum(1 + key.count(":") + bytes(value).count(b":") for key, value in fields.items())


def refuse_repeated_keys(raw: Raw | bytes) -> None:
    """Check every object of a JSON text. Errors: RepeatedKeyError."""
    json.loads(bytes(raw), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise RepeatedKeyError(f"key {repeated!r} is given twice in one object")
    return built
