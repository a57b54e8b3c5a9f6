"""Output for people: files written as a whole, so that a reader finds the old content or the new one, also if the disk
is full or the process ends; text for terminals, in which characters that would control one are visible.
"""

import os
import re
import secrets
import stat
from pathlib import Path
from typing import Any, Final

_NEW_MODE: Final = 0o666
_CONTROL: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Control characters except the line feed, and characters that change the direction or line of the text after them."""


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file beside it first, then rename that. What is no regular file, such as a pipe, is written in place, and
    a link stays one. mode : permissions from the first byte on; None = those of the present file. Raises OSError.
    """
    target = Path(os.path.realpath(path))
    try:
        present = target.stat().st_mode
    except FileNotFoundError:
        present = stat.S_IFREG
    if not stat.S_ISREG(present):
        path.write_bytes(data)
        return
    kept = stat.S_IMODE(present) if mode is None else 0
    # Several processes may write the same file.
    partial = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode or _NEW_MODE), "wb") as file:
            if kept:
                os.fchmod(file.fileno(), kept)
            file.write(data)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def visible_texts(document: Any) -> Any:
    """Return a document as for JSON, for people: its texts, and keys of its objects, are `visible`."""
    if isinstance(document, str):
        return visible(document)
    if isinstance(document, dict):
        return {visible_texts(key): visible_texts(value) for key, value in document.items()}
    return [visible_texts(one) for one in document] if isinstance(document, (list, tuple)) else document


def escaped(json_text: str) -> str:
    """Return JSON for programs that people may see in a terminal, too: the same document, with such characters as
    escapes.
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def is_visible(text: str) -> bool:
    """Return whether a text has no such characters."""
    return _CONTROL.search(text) is None


def visible(text: str) -> str:
    """Return the text with each control character as an escape such as `\\x1b`; line feeds stay."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
