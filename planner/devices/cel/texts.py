"""Functions of strings; positions count characters.

Source: cel-go v0.26, ext strings, version 2; apiserver v0.36, pkg/cel/library/regex.go. Regular expressions are those
of RE2, whose time is linear in the text.
"""

from functools import lru_cache
from typing import Any

from trimtab.planner.devices.cel.values import EvaluationError, extent, spend

_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = {value: key for key, value in _UPPER.items()}
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_PATTERNS = 64
_PATTERN_BYTES = 2 << 20
"""Patterns that are kept, and the most memory that each may take."""


@lru_cache(maxsize=_PATTERNS)
def compiled(pattern: str) -> Any:
    """Return a compiled regular expression. Raises EvaluationError if it is none."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise EvaluationError(f"error parsing regexp: {error}") from None


def matches(text: str, pattern: str) -> bool:
    """Return whether the pattern matches some part of the text."""
    return compiled(pattern).search(text) is not None


def find(text: str, pattern: str) -> str:
    """Return the first match, or ""."""
    found = compiled(pattern).search(text)
    return found.group() if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """Return the matches, up to `limit` unless it is negative."""
    spend(len(text))  # an empty pattern matches everywhere
    found = tuple(one.group() for one in compiled(pattern).finditer(text))
    return found if limit < 0 else found[:limit]


def char_at(text: str, at: int) -> str:
    """Return the character at a position, "" at the end."""
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def index_of(text: str, wanted: str, start: int = 0) -> int:
    """Return the position of the first occurrence from `start`, or -1."""
    if not wanted:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(wanted, start)


def last_index_of(text: str, wanted: str, end: int | None = None) -> int:
    """Return the position of the last occurrence that begins at `end` at the latest, or -1."""
    if end is None:
        spend(extent(text) * extent(wanted))
        return text.rfind(wanted)
    if not wanted:
        return end
    if end < 0:
        raise EvaluationError(f"index out of range: {end}")
    spend(extent(text) * extent(wanted))
    return -1 if end >= len(text) else text.rfind(wanted, 0, end + len(wanted))


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Return the text with occurrences replaced, up to `limit` unless it is negative."""
    found = len(text) + 1 if not old else text.count(old)
    spend((found if limit < 0 else min(found, limit)) * extent(new))
    return text.replace(old, new, limit)


def join(parts: tuple[str, ...], separator: str = "") -> str:
    """Return the parts as one text."""
    spend(sum(map(extent, parts)) + len(parts) * extent(separator))
    return separator.join(parts)


def split(text: str, separator: str, limit: int = -1) -> tuple[str, ...]:
    """Return the parts of a text, `limit` at most unless it is negative; characters if the separator is empty."""
    if limit == 0:
        return ()
    if not separator:
        spend(len(text))
        head = text if limit < 0 else text[: limit - 1]
        return tuple(head) + ((text[limit - 1 :],) if 0 < limit <= len(text) else ())
    return tuple(text.split(separator, -1 if limit < 0 else limit - 1))


def substring(text: str, start: int, end: int | None = None) -> str:
    """Return the characters from `start` to before `end`."""
    last = len(text) if end is None else end
    if not 0 <= start <= last <= len(text):
        raise EvaluationError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def lower(text: str) -> str:
    """Return the text with ASCII letters in lower case."""
    return text.translate(_LOWER)


def upper(text: str) -> str:
    """Return the text with ASCII letters in upper case."""
    return text.translate(_UPPER)


def trim(text: str) -> str:
    """Return the text without blanks at its ends."""
    return text.strip(_SPACES)


def quote(text: str) -> str:
    """Return the text in quotation marks, with escapes."""
    escapes = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    escapes |= {"\\": "\\\\", '"': '\\"'}
    return '"' + "".join(escapes.get(one, one) for one in text) + '"'
