"""Settings and state files: YAML or JSON in the proto3 JSON mapping, into messages.

Never guesses: an unknown key, a key given twice or a value of the wrong kind is an error that names file and key.
"""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from google.protobuf import json_format
from google.protobuf.message import Message
from trimtab.v1 import plan_pb2

from clients.cli.failures import InputError

MessageType = TypeVar("MessageType", bound=Message)
LARGEST_DOCUMENT_BYTES = 1 << 30


class _StrictLoader(yaml.CSafeLoader):
    """YAML without silent surprises: a key given twice is an error, and so is a key that is no string."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping, checking its keys first."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            where = f"line {key_node.start_mark.line + 1}"
            if not isinstance(key, str):
                raise InputError(f'{where}: key {key!r} is no string; write it in quotes: "{key_node.value}"')
            if key in seen:
                raise InputError(f"{where}: key {key!r} is given twice")
            seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping


def read_settings(path: Path | None) -> plan_pb2.PlanSettings:
    """Read a settings file; no file, default settings."""
    if path is None:
        return plan_pb2.PlanSettings()
    return _into(plan_pb2.PlanSettings(), _document(path, "settings"), path, "settings")


def read_state(path: Path | None) -> plan_pb2.PlanState | None:
    """Read the state of the last answer: what `trimtab plan` prints under `state`, or that whole answer."""
    if path is None:
        return None
    document = _document(path, "state")
    if "state" in document and "layoutVersion" not in document:
        document = document["state"]
    return _into(plan_pb2.PlanState(), document, path, "state")


def _document(path: Path, what: str) -> dict[str, Any]:
    """Read one mapping."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{what} file {path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{what} file {path}: this is a directory") from None
    except UnicodeDecodeError:
        raise InputError(f"{what} file {path}: this is no text (YAML or JSON expected)") from None
    except OSError as error:
        raise InputError(f"{what} file {path}: {error.strerror}") from None
    try:
        document = _parse(text)
    except InputError as error:
        raise InputError(f"{what} file {path}: {error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{what} file {path}: neither YAML nor JSON: {' '.join(str(error).split())}") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InputError(f"{what} file {path}: a mapping is expected, not {type(document).__name__}")
    return document


def _parse(text: str) -> Any:
    """Parse JSON where it looks like JSON (it may hold tabs, which YAML forbids), YAML otherwise."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text, object_pairs_hook=_unique)
        except json.JSONDecodeError:
            pass
    return yaml.load(text, Loader=_StrictLoader)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object whose keys differ."""
    built: dict[str, Any] = {}
    for key, value in pairs:
        if key in built:
            raise InputError(f"key {key!r} is given twice")
        built[key] = value
    return built


def _into(message: MessageType, document: Any, path: Path, what: str) -> MessageType:
    """Fill a message in from its JSON form."""
    try:
        return json_format.ParseDict(document, message)
    except (json_format.ParseError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{what} file {path}: {_readable(error, type(message).__name__)}") from None


def _readable(error: Exception, root: str) -> str:
    """Say what protobuf says in the file's own terms."""
    text = " ".join(str(error).split()).split(" Available Fields(")[0]
    text = text.replace(f'Message type "trimtab.v1.{root}" has', "this file has").replace(" at message ", " at ")
    if "Duration" in text or "duration" in text:
        text += ' (durations are written in seconds with a unit, such as "600s")'
    return text
