"""Scenario files: YAML into a checked `Scenario`; an error names file, line and field.

Also the JSON schema, for completion in editors.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trimtab.clients.simulation.recorded import (
    AFTER_S,
    RecordedCluster,
    has_rounds,
    is_recording,
    read_recording,
    scenario_of,
)
from trimtab.clients.simulation.recorded_rounds import read_rounds
from trimtab.clients.simulation.scenario import Scenario, TraceModel
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.traces.arrivals import Arrival, TracedObjects, read_arrivals
from trimtab.clients.simulation.traces.simkube import is_simkube, read_simkube
from trimtab.common.documents.bounded_input import UnreadableTextError, read_text
from trimtab.common.documents.loading import DocumentError, compose_document, line_of, load_document

Trace = tuple[Arrival, ...] | RecordedCluster | TracedObjects
"""Arrivals besides the workloads of the scenario."""
MOST_ERRORS = 10
"""Maximum number of reported errors per file."""


def read_input(path: Path, trace: Path | None = None) -> tuple[Scenario, Trace]:
    """Read a scenario with the files it names, or a recording as a scenario. `trace` : instead of the scenario's.
    Raises ScenarioError.
    """
    if not is_recording(path):
        return read_scenario(path, trace)
    if trace is not None:
        raise ScenarioError(f"{path}: a recording has its own pods; a trace needs a scenario with node groups")
    recorded = _recorded(path)
    return scenario_of(path, recorded), recorded


def _recorded(path: Path) -> RecordedCluster:
    return read_rounds(path) if has_rounds(path) else read_recording(path)


def read_scenario(path: Path, trace: Path | None = None) -> tuple[Scenario, Trace]:
    """Read a scenario and the trace or recording that it names; `trace` : instead of its own. Raises ScenarioError."""
    text = _text(path)
    try:
        document, root = load_document(text), compose_document(text)
    except DocumentError as error:
        raise ScenarioError(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise ScenarioError(f"{path}: line 1: a mapping is expected: {', '.join(_keys())}")
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        raise ScenarioError("\n".join(_error_lines(path, root, error))) from None
    if trace is not None:
        if scenario.recording is not None:
            raise ScenarioError(f"{path}: recording: it contradicts --trace; give one of them")
        given = (scenario.trace or TraceModel(file="")).model_copy(update={"file": str(trace)})
        return _with_trace(scenario.model_copy(update={"trace": given}), trace)
    if scenario.recording is not None:
        return _with_recording(path, scenario, _recorded(path.parent / scenario.recording.file))
    if scenario.trace is None:
        return scenario, ()
    return _with_trace(scenario, path.parent / scenario.trace.file)


def schema() -> dict[str, Any]:
    """Return the JSON schema of scenario files."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Scenario.model_json_schema(by_alias=True),
        "title": "Trimtab simulation scenario",
    }


def _with_recording(path: Path, scenario: Scenario, recorded: RecordedCluster) -> tuple[Scenario, RecordedCluster]:
    """Return a scenario with the beginning and length of its recording, if it does not set them itself."""
    own = scenario_of(path, recorded)
    missing = {"start", "duration"} - scenario.model_fields_set
    return scenario.model_copy(update={name: getattr(own, name) for name in missing}), recorded


def _with_trace(scenario: Scenario, path: Path) -> tuple[Scenario, Trace]:
    """Return a scenario and its trace; one of SimKube sets beginning and length, if the scenario does not."""
    if not is_simkube(path):
        return scenario, read_arrivals(path)
    if scenario.trace is not None and scenario.trace.provisioning_request is not None:
        raise ScenarioError(f"{path}: trace.provisioningRequest: pods of SimKube come as recorded; leave it out")
    traced = read_simkube(path)
    own = {"start": datetime.fromtimestamp(traced.begin_s, UTC), "duration": traced.length_s + AFTER_S}
    missing = {"start", "duration"} - scenario.model_fields_set
    return scenario.model_copy(update={name: own[name] for name in missing}), traced


def _keys() -> list[str]:
    return [field.alias or name for name, field in Scenario.model_fields.items()]


def _text(path: Path) -> str:
    try:
        return read_text(path, " (YAML is expected)")
    except UnreadableTextError as error:
        raise ScenarioError(f"{path}: {error}") from None


def _error_lines(path: Path, root: Any, error: ValidationError) -> list[str]:
    """Return a line for each error, in the order of the file."""
    found = []
    for one in error.errors():
        where = [part for part in one["loc"] if isinstance(part, int | str)]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")
        message = one["msg"].removeprefix("Value error, ")
        if one["type"] == "extra_forbidden":
            message = "this key is unknown"
        found.append((line_of(root, where), f"{field}: {message}" if field else message))
    found.sort()
    lines = [f"{path}: line {line}: {text}" for line, text in found[:MOST_ERRORS]]
    return lines if len(found) <= MOST_ERRORS else [*lines, f"{path}: and {len(found) - MOST_ERRORS} more errors"]
