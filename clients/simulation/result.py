"""The result of a simulation as one JSON document: scenario, figures, samples, decisions, blockers.

Decides the form and its order: the same simulation gives the same bytes, regardless of where and beside what else it
ran. Times are Unix seconds, money is in the currency of the prices.
"""

import gzip
import json
from pathlib import Path
from typing import Any, Final

from trimtab.clients.json_form import json_form
from trimtab.clients.simulation.measurements import SERIES, Measurements, columns_of
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.simulation import ClusterSimulation
from trimtab.common.documents.bounded_input import DamagedInputError, InputSizeError, read_bounded
from trimtab.common.documents.output import write_whole
from trimtab.common.documents.strict_json import RepeatedKeyError, load_json

KIND: Final = "SimulationResult"
COMPARISON: Final = "SimulationComparison"
KINDS: Final = (KIND, COMPARISON)
VERSION: Final = 1
"""Version of the form of results and comparisons."""
MOST_NAMED: Final = 5
"""Maximum number of missing fields in an error."""
_PARTS: Final = {
    "scenario": ("name", "seed", "begin", "durationS"),
    "settings": ("name", "values"),
    "summary": ("rounds", *Measurements().summary(0.0, 0.0)),
    "samples": ("time", "nodes", *SERIES),
    **dict.fromkeys(("reclaims", "decisions", "drains", "packing", "possibleSavingPerHour", "blockers"), ()),
}
"""Parts of a result, with their fields."""

Json = dict[str, Any]


def result_of(simulation: ClusterSimulation, settings_name: str) -> Json:
    """Return the result of a simulation that has ended."""
    scenario, measurements = simulation.scenario, simulation.measurements
    return {
        "kind": KIND,
        "version": VERSION,
        "scenario": {
            "name": scenario.name,
            "seed": scenario.seed,
            "begin": simulation.begin_s,
            "durationS": scenario.duration,
        },
        "settings": {"name": settings_name, "values": json_form(simulation.settings)},
        "summary": simulation.summary(),
        "samples": columns_of(measurements.samples, SERIES),
        "decisions": simulation.decisions.entries,
        "replacements": simulation.decisions.replacements,
        "drains": measurements.drains.entries,
        "reclaims": simulation.reclaims.entries,
        "gangs": measurements.gangs.entries,
        "requests": measurements.requests.entries,
        "packing": measurements.map_of_end(simulation.now_s),
        "possibleSavingPerHour": simulation.decisions.possible_saving_per_hour,
        "blockers": simulation.decisions.blockers,
    }


def encoded(document: Json) -> bytes:
    """Return a result's bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def write_result(path: Path, document: Json) -> None:
    """Write a result, all of it or nothing; a name that ends in ".gz" compresses it. Raises OSError."""
    data = encoded(document)
    write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_result(path: Path) -> Json:
    """Read a result or a comparison. Raises ScenarioError."""
    try:
        with path.open("rb") as file:
            document = load_json(read_bounded(file))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except (InputSizeError, DamagedInputError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    except RepeatedKeyError as error:
        raise ScenarioError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path}: this is no JSON: {error}") from None
    problem = problem_of(document)
    if problem:
        remedy = "make it again with `trimtab simulate SCENARIO --save FILE`"
        raise ScenarioError(f"{path}: {problem}; {remedy}")
    found: Json = document
    return found


def problem_of(document: Any) -> str:
    """Return why a document is no result that this version reads, "" = it is one."""
    if not isinstance(document, dict) or document.get("kind") not in KINDS:
        return "this is no result of a simulation"
    if document.get("version") != VERSION:
        problem = f"this result has the form of version {document.get('version')}"
        return f"{problem}; this version of trimtab reads version {VERSION}"
    runs = document.get("runs") if document["kind"] == COMPARISON else [document]
    if not isinstance(runs, list) or not runs:
        return "this comparison has no runs"
    missing = list(dict.fromkeys(name for run in runs for name in _missing(run)))
    if not missing:
        return ""
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    names = ", ".join(missing[:MOST_NAMED]) + more
    return f"this result is that of another version of trimtab: it has no {names}"


def _missing(run: Any) -> list[str]:
    """Return the fields missing in a result."""
    if not isinstance(run, dict):
        return ["summary"]
    found = []
    for part, fields in _PARTS.items():
        if part not in run or (fields and not isinstance(run[part], dict)):
            found.append(part)
        else:
            found += [f"{part}.{field}" for field in fields if field not in run[part]]
    return found
