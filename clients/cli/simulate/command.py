"""`trimtab simulate`: read scenario and settings, run, print figures, write the result."""

import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn, TimeRemainingColumn

from trimtab.clients.cli.amounts import counted, duration
from trimtab.clients.cli.blocks import AnswerPage
from trimtab.clients.cli.command_options import SimulateOptions
from trimtab.clients.cli.documents import read_settings, settings_of
from trimtab.clients.cli.failures import FailedError, UsageError
from trimtab.clients.cli.group_prices import object_prices, prices_of
from trimtab.clients.cli.label_groups import ZONE
from trimtab.clients.cli.offer_files import read_offers
from trimtab.clients.cli.output import Format, note, stdout_console
from trimtab.clients.cli.price_files import given_prices
from trimtab.clients.cli.prices import Prices, machine_of
from trimtab.clients.cli.printing import print_document
from trimtab.clients.cli.simulate.table import figures_table, recommendation, subject
from trimtab.clients.cli.terminal import print_page, progress
from trimtab.clients.simulation.recommendation import Limit, Recommendation, as_document, read_limits, recommend
from trimtab.clients.simulation.recorded import RecordedCluster
from trimtab.clients.simulation.result import COMPARISON, VERSION, write_result
from trimtab.clients.simulation.scenario import RecordingModel, Scenario
from trimtab.clients.simulation.scenario_file import Trace, read_input, schema
from trimtab.clients.simulation.settings_grid import NamedSettings, grid, read_axis
from trimtab.clients.simulation.sweep import Run, sweep
from trimtab.clients.simulation.traces.arrivals import TracedObjects
from trimtab.common.documents.loading import load_document
from trimtab.v1 import plan_pb2

BUILT_IN = ("upstream",)
"""Names of settings that come with the simulator."""


def simulate(options: SimulateOptions, write_page: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Run every simulation and print the results, or have them written as a page."""
    import structlog

    if options.schema:
        sys.stdout.write(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n")
        return
    files = options.scenario or ()
    if not files:
        raise UsageError("no SCENARIO is given; --schema describes its content")
    if len(files) > 1:
        raise UsageError(
            f"{files[1]}: one scenario is simulated; -o html=FILE compares several saved results on a page"
        )
    limits = read_limits(options.limits or ())
    if limits and not options.recommend:
        raise UsageError("--limit needs --recommend")
    prices = _prices(options)
    scenario, trace = read_input(files[0], options.trace)
    _note_left_out(scenario, trace)
    if prices is not None:
        scenario = scenario_prices(scenario, trace, prices)
    if options.seed is not None:
        scenario = scenario.model_copy(update={"seed": options.seed})
    axes = [read_axis(text) for text in options.axes or ()]
    chosen = grid(_named(tuple(options.settings or ())), axes, settings_from)
    names = [one.name for one in chosen]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"settings {twice[0]} are given twice; give each its own name")
    runs = [
        Run(scenario, trace, one.name, one.settings.SerializeToString(deterministic=True), one.file) for one in chosen
    ]
    runs += _with_programs(runs[0], options.program or ())
    names = [one.name for one in runs]
    # Silence the services' logs; results are shown as a whole.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    results = _with_progress(runs, options)
    found = recommend([one["summary"] for one in results], limits) if options.recommend else None
    document = _document(results, names, found, limits)
    _write(options.save, document)
    if write_page is not None:
        write_page(document)
    elif options.output.format is not Format.TABLE:
        print_document(document, options.output.format)
    else:
        _show(results, found, options.save)
    if found is not None and found.best is None:
        raise FailedError("no settings are within all limits")


def _prices(options: SimulateOptions) -> Prices | None:
    """Return the prices of `--prices` and, where those have none, of `--offers`; None = neither is given."""
    prices = given_prices(options.prices)
    return read_offers(options.offers).prices(prices) if options.offers is not None else prices


def _with_programs(run: Run, commands: Sequence[str]) -> list[Run]:
    """Return a run for each program that decides, with the load and the timers of the given one."""
    found = []
    for text in commands:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"--program {text}: {error}") from None
        if not words:
            raise UsageError("--program: a command is expected")
        try:
            scenario = Scenario.model_validate({**dict(run.scenario), "policy": {"external": words}})
        except ValueError as error:
            raise UsageError(f"--program {text}: {error}") from None
        found.append(run._replace(scenario=scenario, name=f"external:{Path(words[0]).name}"))
    return found


def _note_left_out(scenario: Scenario, trace: Trace) -> None:
    """Say how much of a trace is not simulated: what comes after the end, and kinds of objects that are left out."""
    for text in trace.notes if isinstance(trace, TracedObjects) else ():
        note(f"the trace has {text}")
    if isinstance(trace, RecordedCluster | TracedObjects):
        return
    late = sum(one.at_s >= scenario.duration for one in trace)
    if late:
        lines = counted(late, "line")
        note(f"{lines} of the trace come after the end at {duration(scenario.duration)}: see duration")


def _write(path: Path | None, document: dict[str, Any]) -> None:
    """Save a result, if requested."""
    if path is None:
        return
    try:
        write_result(path, document)
    except OSError as error:
        raise FailedError(f"{path}: {error.strerror}") from None


def _show(results: list[dict[str, Any]], found: Recommendation | None, saved: Path | None) -> None:
    """Print figures for people."""
    table = figures_table(results, heading=subject(results[0]))._replace(title="")
    recommended = recommendation(results, found) if found is not None else ()
    print_page(stdout_console(), AnswerPage("Simulation", (table, *recommended)))
    if saved is not None:
        note(f"{saved} has the details; look at them with: trimtab simulate {saved} -o html=report.html")


def _document(
    results: list[dict[str, Any]], names: list[str], found: Recommendation | None, limits: tuple[Limit, ...]
) -> dict[str, Any]:
    """Return the document to save: one result, or a comparison with what is recommended."""
    if len(results) == 1 and found is None:
        return results[0]
    document: dict[str, Any] = {"kind": COMPARISON, "version": VERSION, "runs": results}
    return document if found is None else {**document, "recommendation": as_document(found, names, limits)}


def _named(paths: tuple[Path, ...]) -> list[NamedSettings]:
    """Read settings files and built-in policies; without any, the defaults."""
    if not paths:
        return [NamedSettings("defaults", plan_pb2.PlanSettings())]
    return [
        NamedSettings(str(path), built_in(str(path)))
        if str(path) in BUILT_IN and not path.exists()
        else NamedSettings(path.stem, read_settings(path), str(path))
        for path in paths
    ]


def settings_from(document: dict[str, Any]) -> plan_pb2.PlanSettings:
    """Return the settings of a document. Raises ValueError."""
    try:
        return settings_of(document)
    except UsageError as error:
        raise ValueError(str(error)) from None


def built_in(name: str) -> plan_pb2.PlanSettings:
    """Return settings that come with the simulator."""
    text = (files("trimtab.clients.simulation.policies") / f"{name}.yaml").read_text(encoding="utf-8")
    return json_format.ParseDict(load_document(text), plan_pb2.PlanSettings())


def _with_progress(runs: list[Run], options: SimulateOptions) -> list[dict[str, Any]]:
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with progress("simulating", *columns, total=len(runs)) as show:
        processes = options.processes or os.cpu_count() or 1
        try:
            return sweep(runs, processes, options.keep, lambda: show(advance=1), options.dask)
        except KeyboardInterrupt:
            if options.keep is not None:
                note(f"interrupted; the same command continues with what is in {options.keep}")
            raise


def scenario_prices(scenario: Scenario, trace: Trace, prices: Prices) -> Scenario:
    """Return a scenario whose node groups, and those of its recording, have their prices."""
    own = {one.name: {machine_of({ZONE: one.zone, **one.labels}, prices)} for one in scenario.node_groups}
    found = prices_of(own, prices)
    groups = [one.model_copy(update={"price": found.get(one.name, one.price)}) for one in scenario.node_groups]
    scenario = scenario.model_copy(update={"node_groups": groups})
    if not isinstance(trace, RecordedCluster):
        return scenario
    recording = scenario.recording or RecordingModel(file="")
    recorded = {**recording.prices, **object_prices(trace.objects, prices)}
    return scenario.model_copy(update={"recording": recording.model_copy(update={"prices": recorded})})
