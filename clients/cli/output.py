"""How an answer is printed: table for people, JSON and YAML in the proto3 JSON mapping for programs.

The JSON of a message prints fields with default values too, so that a reader needs no defaults of its own.
"""

import json
import sys
from enum import StrEnum
from typing import Any

import yaml
from google.protobuf import json_format
from google.protobuf.message import Message
from rich.console import Console


class Format(StrEnum):
    """What `-o` takes."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def as_document(message: Message) -> dict[str, Any]:
    """Return the JSON form of a message."""
    return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)


def print_document(document: Any, form: Format) -> None:
    """Print a document as JSON or YAML on stdout."""
    if form is Format.YAML:
        yaml.dump(document, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)
    else:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def stdout_console() -> Console:
    """The console of answers; where nobody looks at it, as wide as tables need."""
    return Console(soft_wrap=False, width=None if sys.stdout.isatty() else 140, highlight=False)


def stderr_console() -> Console:
    """The console of progress and notes."""
    return Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """Tell something that is no part of the answer."""
    sys.stderr.write(f"note: {text}\n")
