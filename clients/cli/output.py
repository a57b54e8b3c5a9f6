"""Consoles, notes, and the JSON form of messages, in the proto3 JSON mapping.

The JSON of a message includes fields with default values, so a reader need not know the defaults.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

from google.protobuf.message import Message
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from trimtab.clients.json_form import readable_form
from trimtab.common.documents.output import visible

PIPED_WIDTH = 120


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def as_document(message: Message) -> dict[str, Any]:
    """Return the JSON form of a message, with columns by name."""
    return readable_form(message)


class SafeConsole(Console):
    """A console on which no text of the input controls the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a string with its control characters made visible, before its width is measured."""
        return super().render_str(visible(text), **options)

    def on_broken_pipe(self) -> None:
        """Raise the error: the entry of the program decides how it ends."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render to segments, with control characters in their texts made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def stdout_console() -> Console:
    """Return the console for answers; without a terminal it is 120 columns wide unless COLUMNS is set."""
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return SafeConsole(soft_wrap=False, width=width, highlight=False, emoji=False)


_NOTES: ContextVar[list[str] | None] = ContextVar("notes", default=None)
"""Where notes go, None = to standard error."""


@contextmanager
def notes_collected() -> Iterator[list[str]]:
    """Collect notes, and show no progress, for a caller that is a program: nothing is written to standard error."""
    notes: list[str] = []
    token = _NOTES.set(notes)
    try:
        yield notes
    finally:
        _NOTES.reset(token)


def is_quiet() -> bool:
    """Return whether notes are collected, so that nothing may be written."""
    return _NOTES.get() is not None


def stderr_console() -> Console:
    """Return the console for progress and notes."""
    return SafeConsole(stderr=True, highlight=False, quiet=is_quiet())


def note(text: str) -> None:
    """Print a note; it is not part of the answer."""
    notes = _NOTES.get()
    if notes is None:
        sys.stderr.write(f"note: {visible(text)}\n")
    else:
        notes.append(text)
