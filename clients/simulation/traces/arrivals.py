"""Traces of arrivals, one line for pods that arrive together, as CSV or as JSON Lines; version 1 of both.

    time,pods,cpu,memory,lifetime,labels
    0,3,500m,1Gi,1h,app=web;tier=front
    90s,1,2,4Gi,,

    {"trimtabTrace": 1}
    {"time": 0, "pods": 3, "cpu": "500m", "memory": "1Gi", "lifetime": "1h", "labels": {"app": "web"}}

`docs/simulate.md` defines every field. CSV may begin with a line `# trimtab-trace 1`; JSON Lines begin with
their version. A file whose name ends in ".jsonl" or that begins with "{" is JSON Lines. The pods of a line belong to
one Job, which creates evicted ones again. An error names file, line and field. Raises ScenarioError.

A trace of Kubernetes objects has controllers that appear, change their size and go, and pods with their lifetimes;
times are seconds since the beginning of the trace.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from trimtab.clients.simulation.scenario_values import ScenarioError, check_pod_spec, seconds
from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.common.documents.strict_json import RepeatedKeyError, load_json
from trimtab.common.kubernetes.names import RULE, is_label
from trimtab.common.kubernetes.quantities import parse_quantity

VERSION: Final = 1
REQUIRED: Final = ("time", "cpu", "memory")
COLUMNS: Final = (*REQUIRED, "pods", "lifetime", "labels", "namespace", "priority", "gang")
FIELDS: Final = (*COLUMNS, "spec")
"""Fields of a line of JSON."""
MOST_PODS: Final = 100_000
HIGHEST_PRIORITY: Final = 1_000_000_000
"""Highest priority of a pod that is none of the system's."""
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_VERSION_LINE: Final = re.compile(r"#\s*trimtab-trace\s+(\S+)\s*")


class Arrival(NamedTuple):
    """Pods that arrive together. at_s : since the beginning; pods : how many; cpu, memory : requests of each, as
    quantities; lifetime_s : seconds until they end, None = they stay; labels : sorted pairs; namespace "" = that of the
    scenario; spec : other fields of their spec, as JSON text, "" = none; gang : fewest of them that start together, 0 =
    each by itself.
    """

    at_s: float
    pods: int
    cpu: str
    memory: str
    lifetime_s: float | None
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    spec: str = ""
    gang: int = 0


def read_arrivals(path: Path) -> tuple[Arrival, ...]:
    """Read a trace of arrivals."""
    try:
        text = read_text(path, " (CSV or JSON Lines are expected)", "utf-8-sig")
    except UnreadableTextError as error:
        raise ScenarioError(f"{path}: {error}") from None
    is_json = path.suffix == ".jsonl" or text.lstrip().startswith("{")
    rows = _json_rows(path, text) if is_json else _csv_rows(path, text)
    return tuple(_in_order(path, rows))


def _in_order(path: Path, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[Arrival]:
    """Yield the arrivals of lines with their numbers."""
    before = 0.0
    for line, row in rows:
        try:
            arrival = _arrival(row)
            if arrival.at_s < before:
                raise ValueError(
                    f"time {arrival.at_s:g} s is before that of the line above, {before:g} s; sort the lines"
                )
        except ValueError as error:
            raise ScenarioError(f"{path}: line {line}: {error}") from None
        before = arrival.at_s
        yield arrival


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the lines of CSV."""
    first, _, rest = text.partition("\n")
    skipped = 0
    found = _VERSION_LINE.fullmatch(first)
    if found:
        _check_version(path, found[1])
        text, skipped = rest, 1
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
    try:
        _check_columns(path, list(reader.fieldnames or ()), 1 + skipped)
        for row in reader:
            line = reader.line_num + skipped
            if "" in row or None in row.values():
                kind = "more" if "" in row else "fewer"
                raise ScenarioError(f"{path}: line {line}: it has {kind} values than the first line has columns")
            yield line, {name: value for name, value in row.items() if value != "" or name in REQUIRED}
    except csv.Error as error:
        raise ScenarioError(f"{path}: line {reader.reader.line_num + skipped}: this is no CSV: {error}") from None


def _check_columns(path: Path, columns: list[str], line: int) -> None:
    problems = [
        *(f"column {name!r} is unknown" for name in columns if name not in COLUMNS),
        *(f"column {name!r} is missing" for name in REQUIRED if name not in columns),
        *(f"column {name!r} is given twice" for name in COLUMNS if columns.count(name) > 1),
    ]
    if problems:
        raise ScenarioError(f"{path}: line {line}: {problems[0]}; there are {', '.join(COLUMNS)}")


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the lines of JSON after the one with the version."""
    has_version = False
    for line, content in enumerate(text.splitlines(), 1):
        if not content.strip():
            continue
        try:
            row = load_json(content.encode())
        except (RepeatedKeyError, ValueError, RecursionError) as error:
            raise ScenarioError(f"{path}: line {line}: this is no JSON: {error}") from None
        if not isinstance(row, dict):
            raise ScenarioError(f"{path}: line {line}: an object is expected")
        if not has_version:
            has_version = True
            if set(row) != {"trimtabTrace"}:
                raise ScenarioError(f'{path}: line {line}: the first line must be {{"trimtabTrace": {VERSION}}}')
            _check_version(path, row["trimtabTrace"])
            continue
        unknown = [name for name in row if name not in FIELDS]
        missing = [name for name in REQUIRED if name not in row]
        if unknown or missing:
            problem = f"field {unknown[0]!r} is unknown" if unknown else f"field {missing[0]!r} is missing"
            raise ScenarioError(f"{path}: line {line}: {problem}; there are {', '.join(FIELDS)}")
        yield line, row
    if not has_version:
        raise ScenarioError(f'{path}: line 1: the first line must be {{"trimtabTrace": {VERSION}}}')


def _check_version(path: Path, found: object) -> None:
    if str(found) != str(VERSION):
        raise ScenarioError(f"{path}: line 1: this is a trace of version {found}; this trimtab reads version {VERSION}")


def _arrival(row: Mapping[str, Any]) -> Arrival:
    """Read one line. Raises ValueError."""
    pods = _whole("pods", row.get("pods", 1), 1, MOST_PODS)
    return Arrival(
        _seconds("time", row["time"]),
        pods,
        _quantity("cpu", row["cpu"]),
        _quantity("memory", row["memory"]),
        _seconds("lifetime", row["lifetime"]) if row.get("lifetime") is not None else None,
        _labels(row.get("labels", {})),
        _namespace(row.get("namespace", "")),
        _spec(row),
        _whole("gang", row["gang"], 1, pods) if row.get("gang") is not None else 0,
    )


def _quantity(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{name}: a quantity is text such as "500m", or a number')
    try:
        amount = parse_quantity(str(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if amount < 0:
        raise ValueError(f"{name}: {value} is negative")
    return str(value)


def _whole(name: str, value: object, least: int, most: int) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.removeprefix("-").isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{name} {value!r} is no number between {least} and {most}")
    return int(text)


def _seconds(name: str, value: object) -> float:
    """Read a duration; a plain number is in seconds. Raises ValueError."""
    try:
        return seconds(f"{value}s" if isinstance(value, str) and _NUMBER.fullmatch(value) else value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _labels(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, str):
        return tuple(sorted(_label(text) for text in value.split(";") if text))
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError("labels: an object with text values is expected")
    return tuple(sorted(value.items()))


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ValueError(f"labels: {text!r} is not KEY=VALUE")
    return key, value


def _namespace(value: object) -> str:
    if value != "" and not (isinstance(value, str) and is_label(value)):
        raise ValueError(f"namespace: {value!r} is no namespace; those have {RULE}")
    return str(value)


def _spec(row: Mapping[str, Any]) -> str:
    """Return the other fields of the pods' spec as JSON, with the priority."""
    spec = row.get("spec", {})
    if not isinstance(spec, dict):
        raise ValueError("spec: an object is expected, as in Kubernetes")
    if "priority" in row:
        spec = {**spec, "priority": _whole("priority", row["priority"], -(1 << 31), HIGHEST_PRIORITY)}
    if not spec:
        return ""
    try:
        return json.dumps(check_pod_spec(spec), sort_keys=True)
    except ValueError as error:
        raise ValueError(f"spec.{error}") from None


Json = dict[str, Any]


class TracedSize(NamedTuple):
    """A controller from a time on. replicas : its number of pods, 0 once it is deleted; template : of pods created from
    now on. A DaemonSet has no number: 1 = it exists.
    """

    at_s: float
    replicas: int
    template: Json


class TracedController(NamedTuple):
    """A controller, with replicas 0 and its first template. sizes : in order of time, the first one its creation."""

    item: Json
    sizes: tuple[TracedSize, ...]


class TracedPod(NamedTuple):
    """A pod that arrives. item : the object; lifetime_s : from when it is ready to its end, None = it stays.

    is_replaced : a Job creates it again if it is evicted; until_s : when it was deleted, None = it was not
    """

    at_s: float
    item: Json
    lifetime_s: float | None = None
    is_replaced: bool = False
    until_s: float | None = None


class TracedObjects(NamedTuple):
    """A whole trace. begin_s : Unix seconds; length_s : to its last event; pods : in order of time, then of name; notes
    : what it contains that is not simulated, for people.
    """

    begin_s: float
    length_s: float
    controllers: tuple[TracedController, ...]
    pods: tuple[TracedPod, ...]
    notes: tuple[str, ...] = ()
