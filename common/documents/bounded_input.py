"""Bytes of a file or of standard input, unpacked, up to a limit.

Unit: bytes.
"""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

STANDARD_INPUT: Final = Path("-")
"""The name of standard input among files."""
MAX_INPUT_BYTES: Final = 1 << 30
"""Most bytes of an input, unpacked, unless a caller gives another limit: Kubernetes objects of about a million pods."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PIECE_BYTES: Final = 1 << 20


class InputSizeError(ValueError):
    """An input is larger than the limit."""


class DamagedInputError(ValueError):
    """Compressed bytes cannot be unpacked."""


class UnreadableTextError(ValueError):
    """A file cannot be read as text; says why."""


@contextmanager
def open_input(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file, a pipe, or standard input for "-". It is read once, from its start, as a pipe cannot go back."""
    if path == STANDARD_INPUT:
        yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    with path.open("rb") as file:
        yield file


def read_bounded(file: io.BufferedReader, max_bytes: int = MAX_INPUT_BYTES) -> bytes:
    """Return all bytes of a file, unpacked if they are gzip. Raises InputSizeError as soon as more than `max_bytes`
    are read; DamagedInputError; OSError.
    """
    packed = file.peek(2)[:2] == _GZIP_MAGIC
    source = gzip.GzipFile(fileobj=file) if packed else file
    # A file of known size is read at once, without copies; nothing is left of it then, unless it is being written to.
    first = b"" if packed else file.read(min(_size(file), max_bytes))
    if not file.peek(1):
        return first
    content = io.BytesIO()
    content.write(first)
    try:
        while piece := source.read(_PIECE_BYTES):
            if content.tell() + len(piece) > max_bytes:
                what = "unpacked, it is" if packed else "it is"
                raise InputSizeError(f"{what} larger than {max_bytes} bytes")
            content.write(piece)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedInputError(f"its compressed data are damaged or cut off ({error})") from error
    return content.getvalue()


def _size(file: io.BufferedReader) -> int:
    """Return the size of a file; 0 for a pipe and whatever else has none."""
    try:
        return os.fstat(file.fileno()).st_size
    except OSError:
        return 0


def read_text(path: Path, expected: str, encoding: str = "utf-8") -> str:
    """Return the text of a file, unpacked if it is gzip. Raises UnreadableTextError. expected : added to the error if
    the bytes are not text.
    """
    try:
        with path.open("rb") as file:
            return read_bounded(file).decode(encoding)
    except UnicodeDecodeError:
        raise UnreadableTextError(f"this is not text{expected}") from None
    except (InputSizeError, DamagedInputError) as error:
        raise UnreadableTextError(str(error)) from None
    except OSError as error:
        raise UnreadableTextError(str(error.strerror)) from None
