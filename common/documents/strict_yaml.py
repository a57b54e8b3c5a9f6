"""YAML that is safe to load: nesting and aliases are bounded, and no key of a mapping is given twice.

Checks the events of the parser before anything is built, because the C composer recurses without a limit and crashes
the process. Never builds values.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import yaml

MAX_DEPTH: Final = 200
"""Most nested collections. Kubernetes objects have fewer than 50."""
MAX_EXPANSION: Final = 1_000_000
"""Most values that aliases may stand for in total. Hand-written files have a few thousand."""
_PARSER_LIMIT: Final = "exceeded maximum nesting depth"


class YamlError(ValueError):
    """A document that is not loaded; the message names the line."""


@dataclass
class _Collection:
    """A mapping or a sequence whose end has not been read yet. `is_mapping` : no sequence; `anchor` : its name, None =
    it has none; `size` : nodes in it, with itself; `is_key_next` : of a mapping, whether a key comes next; `keys` :
    those read.
    """

    anchor: str | None
    is_mapping: bool
    size: int = 1
    is_key_next: bool = True
    keys: set[str] = field(default_factory=set)


def check_yaml(data: bytes | str) -> None:
    """Check a stream of documents. O(length). Raises YamlError; yaml.YAMLError for what is not YAML."""
    checker = _Checker()
    try:
        for event in yaml.parse(data, Loader=yaml.CSafeLoader):
            checker.read(event)
    except yaml.MarkedYAMLError as error:
        # libyaml 0.2.6 and later (PyYAML 6.0.4) has a limit of its own, 1,000 levels, and reads tokens ahead of events.
        mark = error.problem_mark
        if error.problem == _PARSER_LIMIT and mark is not None:
            raise _too_deep(mark.line + 1) from error
        raise


def describe_yaml_error(error: Exception) -> str:
    """Return what the parser says of a text that is not YAML, in one line that begins with the line of the text."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    what = " ".join(part for part in (error.context, error.problem) if part)
    return f"line {error.problem_mark.line + 1}: {what}"


class _Checker:
    """The state of one check."""

    def __init__(self) -> None:
        self._open: list[_Collection] = []
        self._sizes: dict[str, int] = {}
        self._expanded = 0

    def read(self, event: Any) -> None:
        """Take one event of the parser into account."""
        if isinstance(event, yaml.ScalarEvent):
            self._check_key(event)
            self._close(event.anchor, 1)
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(self._open) >= MAX_DEPTH:
                raise _too_deep(_line(event))
            self._open.append(_Collection(event.anchor, isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = self._open.pop()
            self._close(closed.anchor, closed.size)
        elif isinstance(event, yaml.AliasEvent):
            self._expand(event)
        elif isinstance(event, yaml.DocumentEndEvent):
            self._sizes.clear()

    def _check_key(self, event: Any) -> None:
        if not self._open or not self._open[-1].is_mapping or not self._open[-1].is_key_next:
            return
        keys = self._open[-1].keys
        if event.value in keys:
            raise YamlError(f"line {_line(event)}: key {event.value!r} is given twice")
        keys.add(event.value)

    def _expand(self, event: Any) -> None:
        """Count what an alias stands for."""
        if event.anchor not in self._sizes:
            raise YamlError(f"line {_line(event)}: alias {event.anchor!r} refers to nothing before it")
        size = self._sizes[event.anchor]
        self._expanded += size
        if self._expanded > MAX_EXPANSION:
            raise YamlError(f"line {_line(event)}: aliases expand to more than {MAX_EXPANSION} values")
        self._close(None, size)

    def _close(self, anchor: str | None, size: int) -> None:
        """Take a complete value into account."""
        if anchor is not None:
            self._sizes[anchor] = size
        if self._open:
            parent = self._open[-1]
            parent.size += size
            parent.is_key_next = not parent.is_key_next


def _too_deep(line: int) -> YamlError:
    return YamlError(f"line {line}: it is nested more than {MAX_DEPTH} levels deep")


def _line(event: Any) -> int:
    line: int = event.start_mark.line
    return line + 1
