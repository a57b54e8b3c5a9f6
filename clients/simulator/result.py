"""The result of a simulation as one JSON document: what was simulated, figures, samples, decisions, blockers.

Decides the form and its order: the same simulation gives the same bytes, wherever and beside whatever it ran. Times are
Unix seconds, money is in the currency of the prices.
"""

import gzip
import json
from pathlib import Path
from typing import Any, Final

from google.protobuf import json_format

from clients.simulator.failures import ScenarioError
from clients.simulator.simulation import Simulation
from clients.transport.bounded_input import DamagedInputError, InputSizeError, read_bounded

KIND: Final = "SimulationResult"
KINDS: Final = (KIND, "SimulationComparison")

Json = dict[str, Any]


def result_of(simulation: Simulation, settings_name: str) -> Json:
    """Return the result of a simulation that has ended."""
    scenario, measurements = simulation.scenario, simulation.measurements
    keys = sorted({key for sample in measurements.samples for key in sample.nodes})
    samples = measurements.samples
    columns = ("pods", "pending", "cpu_allocatable", "cpu_requested", "memory_allocatable", "memory_requested")
    names = ("pods", "pending", "cpuAllocatableMilli", "cpuRequestedMilli", "memoryAllocatable", "memoryRequested")
    series: Json = {
        name: [getattr(one, column) for one in samples] for name, column in zip(names, columns, strict=True)
    }
    return {
        "kind": KIND,
        "version": 1,
        "scenario": {
            "name": scenario.name,
            "seed": scenario.seed,
            "begin": simulation.begin_s,
            "durationS": scenario.duration,
        },
        "settings": {"name": settings_name, "values": json_format.MessageToDict(simulation.settings)},
        "summary": simulation.summary(),
        "samples": {
            "time": [one.time_s for one in samples],
            "nodes": {key: [one.nodes.get(key, 0) for one in samples] for key in keys},
            "pricePerHour": [one.price_per_hour for one in samples],
            **series,
        },
        "decisions": simulation.decisions.entries,
        "drains": measurements.drains.entries,
        "packing": measurements.map_of_end(simulation.now_s),
        "possibleSavingPerHour": simulation.decisions.possible_saving_per_hour,
        "blockers": simulation.decisions.blockers,
    }


def encoded(document: Json) -> bytes:
    """Return a result's bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def write_result(path: Path, document: Json) -> None:
    """Write a result; ".gz" at the end of the name packs it. Raises OSError."""
    data = encoded(document)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_result(path: Path) -> Json:
    """Read a result or a comparison. Raises ScenarioError."""
    try:
        with path.open("rb") as file:
            document = json.loads(read_bounded(file))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except (InputSizeError, DamagedInputError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{path}: this is no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("kind") not in KINDS or document.get("version") != 1:
        remedy = "make one with `trimtab simulate SCENARIO --save FILE`"
        raise ScenarioError(f"{path}: this is no result of a simulation that this version reads; {remedy}")
    return document
