"""Log lines for people on a terminal: the time of day, the level if it is a warning or worse, and the event in words
with its values. An event with a `text` is shown as that text alone, and left out while the text stays the same. Nothing
in a line controls the terminal.
"""

from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Any, Final

import structlog

from trimtab.common.documents.output import visible

_LOUD: Final = ("warning", "error", "critical")
_OWN: Final = ("event", "level", "text", "exception")


class TextRenderer:
    """The last processor of structlog. Remembers the last text of each event."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def __call__(self, _logger: object, _method: str, event: MutableMapping[str, Any]) -> str:
        """Return the line. Raises DropEvent for a text that was shown last time."""
        name, level = str(event.get("event", "")), str(event.get("level", "info"))
        text = event.get("text")
        if text is not None and self._last.get(name) == text:
            raise structlog.DropEvent
        if text is not None:
            self._last[name] = text
        said = str(text) if text is not None else _in_words(name, event)
        line = visible(f"{datetime.now():%H:%M:%S} {f'{level}: ' if level in _LOUD else ''}{said}").replace("\n", " ")
        trace = event.get("exception")
        return f"{line}\n{visible(str(trace))}" if trace else line


def _in_words(name: str, event: Mapping[str, Any]) -> str:
    """Return an event and its values: "state resumed: age_s 12.0, unneeded 3"."""
    values = ", ".join(f"{key} {value}" for key, value in event.items() if key not in _OWN and value not in ("", None))
    words = name.replace("_", " ")
    return f"{words}: {values}" if values else words
