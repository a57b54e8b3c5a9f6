"""Traces of arrivals as CSV, one line for pods that arrive together:

    time,pods,cpu,memory,lifetime,labels
    0,3,500m,1Gi,1h,app=web;tier=front
    90s,1,2,4Gi,,

Columns, in any order, named by the first line: `time` since the beginning, a duration as in Go or seconds, not
descending; `pods` how many, default 1; `cpu` and `memory`, quantities of Kubernetes; `lifetime` of each pod from when
it is ready, a duration, empty = they stay; `labels` as KEY=VALUE, separated by ";". Only `time`, `cpu` and `memory` are
required. The pods of a line belong to one Job, which creates evicted ones again. An error names file and line.
"""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from trimtab.clients.documents.bounded_input import UnreadableTextError, read_text
from trimtab.clients.kubernetes.quantities import parse_quantity
from trimtab.clients.simulation.scenario_values import ScenarioError, seconds

REQUIRED: Final = ("time", "cpu", "memory")
COLUMNS: Final = (*REQUIRED, "pods", "lifetime", "labels")
MOST_PODS: Final = 100_000
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


class Arrival(NamedTuple):
    """Pods that arrive together. at_s : since the beginning; pods : how many; cpu, memory : requests of each, as
    quantities; lifetime_s : seconds until they end, None = they stay; labels : sorted pairs.
    """

    at_s: float
    pods: int
    cpu: str
    memory: str
    lifetime_s: float | None
    labels: tuple[tuple[str, str], ...] = ()


def read_trace(path: Path) -> tuple[Arrival, ...]:
    """Read a trace. Raises ScenarioError."""
    try:
        text = read_text(path, " (CSV is expected)", "utf-8-sig")
    except UnreadableTextError as error:
        raise ScenarioError(f"{path}: {error}") from None
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
    try:
        return tuple(_arrivals(path, reader))
    except csv.Error as error:
        raise ScenarioError(f"{path}: line {reader.reader.line_num}: this is no CSV: {error}") from None


def _arrivals(path: Path, reader: "csv.DictReader[str]") -> Iterator[Arrival]:
    columns = list(reader.fieldnames or ())
    unknown = [name for name in columns if name not in COLUMNS]
    missing = [name for name in REQUIRED if name not in columns]
    problems = [
        *(f"column {name!r} is unknown" for name in unknown),
        *(f"column {name!r} is missing" for name in missing),
        *(f"column {name!r} is given twice" for name in COLUMNS if columns.count(name) > 1),
    ]
    if problems:
        raise ScenarioError(f"{path}: line 1: {problems[0]}; there are {', '.join(COLUMNS)}")
    before = 0.0
    for row in reader:
        try:
            arrival = _arrival(row)
            if arrival.at_s < before:
                raise ValueError(
                    f"time {arrival.at_s:g} s is before that of the line above, {before:g} s; sort the lines"
                )
        except ValueError as error:
            raise ScenarioError(f"{path}: line {reader.line_num}: {error}") from None
        before = arrival.at_s
        yield arrival


def _arrival(row: dict[str, str]) -> Arrival:
    """Read one line. Raises ValueError."""
    if "" in row or None in row.values():
        raise ValueError(f"it has {'more' if '' in row else 'fewer'} values than the first line has columns")
    pods = row.get("pods") or "1"
    if not pods.isdecimal() or not 1 <= int(pods) <= MOST_PODS:
        raise ValueError(f"pods {pods!r} is no number between 1 and {MOST_PODS}")
    for name in ("cpu", "memory"):
        try:
            amount = parse_quantity(row[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if amount < 0:
            raise ValueError(f"{name}: {row[name]} is negative")
    return Arrival(
        _seconds("time", row["time"]),
        int(pods),
        row["cpu"],
        row["memory"],
        _seconds("lifetime", row["lifetime"]) if row.get("lifetime") else None,
        tuple(sorted(_label(text) for text in (row.get("labels") or "").split(";") if text)),
    )


def _seconds(name: str, text: str) -> float:
    """Read a duration; a plain number is in seconds. Raises ValueError."""
    try:
        return seconds(f"{text}s" if _NUMBER.fullmatch(text) else text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ValueError(f"labels: {text!r} is not KEY=VALUE")
    return key, value
