"""Settings and state files: YAML or JSON in the proto3 JSON mapping, into messages.

Never guesses: an unknown key, a key given twice or a value of the wrong kind is an error that names file and key.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.message_fields import checked
from trimtab.clients.json_form import json_form, with_value
from trimtab.common.documents.bounded_input import DamagedInputError, InputSizeError, open_input, read_bounded
from trimtab.common.documents.loading import DocumentError, NotADocumentError, load_document
from trimtab.v1 import plan_pb2, snapshot_pb2
from trimtab.words import counted

MessageType = TypeVar("MessageType", bound=Message)
LARGEST_DOCUMENT_BYTES = 1 << 28
_STATE_REMEDY = (
    "a state is what a plan keeps for the next one: give the output of `trimtab plan -o json`, or its `state`, or omit "
    "--state"
)


def read_settings(path: Path | None, changes: Iterable[str] = ()) -> plan_pb2.PlanSettings:
    """Read a settings file, and changes such as "scaleDown.utilizationThreshold=0.4" over it; neither gives default
    settings. Errors: UsageError.
    """
    settings = plan_pb2.PlanSettings()
    if path is not None:
        with _naming("settings", path):
            _into(settings, _document(path))
    for text in changes:
        settings = _changed(settings, text)
    return settings


def _changed(settings: plan_pb2.PlanSettings, text: str) -> plan_pb2.PlanSettings:
    """Return settings with one value of `--set`. Errors: UsageError."""
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise UsageError(f"--set {text}: give KEY=VALUE, such as scaleDown.utilizationThreshold=0.4")
    try:
        return settings_of(with_value(json_form(settings), path, load_document(value)))
    except DocumentError:
        raise UsageError(f"--set {text}: the value is not YAML") from None
    except (UsageError, ValueError) as error:
        raise UsageError(f"--set {text}: {error}") from None


def settings_of(document: Any) -> plan_pb2.PlanSettings:
    """Return the settings that a document gives. Errors: UsageError."""
    return _into(plan_pb2.PlanSettings(), document)


def read_state(path: Path | None) -> plan_pb2.PlanState | None:
    """Read the state of the last answer: what `trimtab plan` prints under `state`, or that whole answer.

    Errors: UsageError, also for a state without content.
    """
    if path is None:
        return None
    with _naming("state", path):
        document = _document(path)
        if "state" in document and "diagnostics" in document:
            document = document["state"]
        if not document:
            raise UsageError(f"it is empty; {_STATE_REMEDY}")
        try:
            state = _into(plan_pb2.PlanState(), document)
        except UsageError as error:
            raise UsageError(f"this is no state: {error}; {_STATE_REMEDY}") from None
    return state


def check_state(path: Path | None, state: plan_pb2.PlanState, snapshot: snapshot_pb2.ClusterSnapshot) -> None:
    """Check that a state belongs to the snapshot's cluster: some node of the state exists. Errors: UsageError."""
    named = {name for part in _parts(state) for name in getattr(part, "strings", ()) if name}
    if path is not None and named and named.isdisjoint(node.name for node in snapshot.nodes):
        example = min(named)
        raise UsageError(
            f"state file {path}: the input has none of its {counted(len(named), 'node')}, such as {example}: it is the "
            "state of another cluster; omit --state"
        )


def settings_notes(settings: plan_pb2.PlanSettings, snapshot: snapshot_pb2.ClusterSnapshot) -> dict[str, str]:
    """Return a note for each node group that is in the settings but not in the snapshot, by its name."""
    known = [group.id for group in snapshot.node_groups]
    notes = {}
    for name in sorted(set(settings.node_groups) - set(known)):
        near = difflib.get_close_matches(name, known, 1)
        question = f"; did you mean {near[0]}?" if near else ""
        notes[name] = f"settings: nodeGroups.{name}: the input has no such node group{question}"
    return notes


def _parts(state: plan_pb2.PlanState) -> Iterator[Any]:
    """Yield the sub-message of each decision that has one."""
    for _, part in state.ListFields():
        yield part


@contextmanager
def _naming(what: str, path: Path) -> Iterator[None]:
    """Add the file's name to an error."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{what} file {path}: {error}") from None


def _document(path: Path) -> dict[str, Any]:
    """Read one mapping; an empty file is an empty one."""
    try:
        document = load_document(_text(path))
    except NotADocumentError as error:
        raise UsageError(f"neither YAML nor JSON: {error}") from None
    except DocumentError as error:
        raise UsageError(str(error)) from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"a mapping is expected, not {type(document).__name__}")
    return document


def _text(path: Path) -> str:
    """Read a whole file."""
    try:
        with open_input(path) as file:
            return read_bounded(file, LARGEST_DOCUMENT_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise UsageError("there is no such file") from None
    except IsADirectoryError:
        raise UsageError("this is a directory") from None
    except UnicodeDecodeError:
        raise UsageError("this is not text (YAML or JSON expected)") from None
    except (InputSizeError, DamagedInputError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(str(error.strerror)) from None


def _into(message: MessageType, document: Any) -> MessageType:
    """Fill a message from its JSON form."""
    try:
        return json_format.ParseDict(checked(document, cast(Descriptor, message.DESCRIPTOR)), message)
    except (json_format.ParseError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(" ".join(str(error).split())) from None


_LARGEST = 253_402_300_799
"""9999-12-31T23:59:59Z, the last second that a Timestamp holds."""


def read_now(text: str | None) -> Timestamp:
    """Read RFC 3339 ("2026-01-31T12:00:00Z") or Unix seconds ("1769860800.5"); None gives the current time."""
    moment = Timestamp()
    if text is None:
        moment.FromDatetime(datetime.now(UTC))
        return moment
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        seconds = Decimal(text)
        if seconds > _LARGEST:
            raise UsageError(f"--now {text}: this is past the year 9999; Unix time is given in seconds")
        moment.seconds = int(seconds)
        moment.nanos = int((seconds - int(seconds)) * 1_000_000_000)
        return moment
    try:
        moment.FromJsonString(text)
    except ValueError:
        example = "2026-01-31T12:00:00Z"
        raise UsageError(f'--now {text}: neither RFC 3339 (such as "{example}") nor Unix seconds') from None
    return moment
