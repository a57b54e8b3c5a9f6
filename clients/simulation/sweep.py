"""Many simulations of one trace: each setting of a sweep in a separate process, results in the order of the settings.

Decides how they are distributed, never their results: a run depends only on its scenario, trace and settings, so the
result is the same on one process or many, on this machine or on a Dask cluster. Finished runs are stored in a
directory, under the digest of all their inputs; an interrupted sweep continues with the missing ones.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from trimtab.clients.json_form import setting_problem
from trimtab.clients.simulation.dask_cluster import dask_pool
from trimtab.clients.simulation.policies.external import ExternalPolicy
from trimtab.clients.simulation.result import Json, encoded, problem_of, result_of
from trimtab.clients.simulation.scenario import Scenario
from trimtab.clients.simulation.scenario_file import Trace
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.simulation import ClusterSimulation, SimulationRunOptions
from trimtab.common.documents.output import write_whole
from trimtab.common.documents.strict_json import load_json
from trimtab.common.rpc.errors import TrimtabError
from trimtab.v1 import plan_pb2


class Run(NamedTuple):
    """One simulation to run.

    settings : an encoded `PlanSettings`; file : where they are from, for error messages, "" = from no file
    scenario, trace : what is simulated; name : of the settings; with the scenario's `policy` a program decides
    """

    scenario: Scenario
    trace: Trace
    name: str
    settings: bytes
    file: str = ""

    @property
    def digest(self) -> str:
        """Return a digest of all inputs of the result."""
        parts = (version("trimtab"), self.name, self.settings.hex(), self.scenario.model_dump_json(), list(self.trace))
        return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


def simulate(run: Run) -> Json:
    """Run one simulation. Raises ScenarioError for settings that the planner refuses."""
    settings = plan_pb2.PlanSettings.FromString(run.settings)
    model = run.scenario.policy
    policy = ExternalPolicy(run.scenario.name, model.external, model.timeout) if model is not None else None
    # A program has timers of which nothing is known: no round is left out.
    options = SimulationRunOptions(link=policy, skip_idle=policy is None)
    try:
        simulation = ClusterSimulation(run.scenario, run.trace, settings=settings, options=options)
        if policy is not None:
            policy.attach(simulation.cluster)
        return result_of(simulation.run(), run.name)
    except TrimtabError as error:
        # Such an error cannot be passed between processes.
        where = f"settings file {run.file}" if run.file else f"settings {run.name}"
        problem = setting_problem(error.message, error.metadata.get("field", ""))
        raise ScenarioError(f"{where}: {problem} ({error.reason_name})") from None
    finally:
        if policy is not None:
            policy.close()


def sweep(
    runs: Sequence[Run],
    processes: int = 1,
    directory: Path | None = None,
    done: Callable[[], None] = lambda: None,
    dask: str = "",
) -> list[Json]:
    """Execute all runs; return their results in order. `done` is called after each.

    directory : where finished runs are stored and found again, None = nowhere; dask : address of the scheduler of a
    Dask cluster that executes them, "" = this machine, in the given number of processes. Raises ScenarioError;
    MissingExtraError.
    """
    finished = _FinishedRuns(directory)
    found: dict[int, Json] = {}
    for number, run in enumerate(runs):
        result = finished.get(run)
        if result is not None:
            found[number] = result
            done()
    missing = [number for number in range(len(runs)) if number not in found]
    for number, result in _made(runs, missing, processes, dask):
        finished.put(runs[number], result)
        found[number] = result
        done()
    return [found[number] for number in range(len(runs))]


def _made(runs: Sequence[Run], numbers: Sequence[int], processes: int, dask: str) -> Iterator[tuple[int, Json]]:
    """Yield results as they arrive."""
    if dask and numbers:
        with dask_pool(dask) as pool:
            yield from _gathered(pool, _simulate_quietly, runs, numbers)
        return
    if processes <= 1 or len(numbers) <= 1:
        yield from ((number, simulate(runs[number])) for number in numbers)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(numbers)), context, _quiet) as pool:
        yield from _gathered(pool, simulate, runs, numbers)


def _gathered(
    pool: Executor, make: Callable[[Run], Json], runs: Sequence[Run], numbers: Sequence[int]
) -> Iterator[tuple[int, Json]]:
    """Execute runs in a pool; yield results as they arrive. Runs not yet started are dropped when the caller stops."""
    futures: dict[Future[Json], int] = {pool.submit(make, runs[number]): number for number in numbers}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BaseException:
        for future in futures:
            future.cancel()
        pool.shutdown(wait=False)
        raise


def _simulate_quietly(run: Run) -> Json:
    """Execute one run in a process of another owner: the services' logs are not printed there."""
    import structlog

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    return simulate(run)


def _quiet() -> None:
    """Set up a process: it prints nothing, and leaves Ctrl-C to the process that started it."""
    import signal

    import structlog

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


class _FinishedRuns:
    """Finished runs in a directory."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        try:
            if directory is not None:
                directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ScenarioError(f"{directory}: {error.strerror}") from None

    def get(self, run: Run) -> Json | None:
        """Return a finished run; None = it does not exist, cannot be read, or was written by another version."""
        if self._directory is None:
            return None
        try:
            document: Any = load_json((self._directory / f"{run.digest}.json").read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return None if problem_of(document) else document

    def put(self, run: Run, result: Json) -> None:
        """Store a finished run: the whole file or none."""
        if self._directory is None:
            return
        try:
            write_whole(self._directory / f"{run.digest}.json", encoded(result))
        except OSError as error:
            raise ScenarioError(f"{self._directory}: {error.strerror}") from None
