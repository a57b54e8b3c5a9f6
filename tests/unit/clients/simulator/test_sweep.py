"""Sweeps: the same results however they are spread, and an interrupted one goes on where it stopped."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from trimtab.v1 import plan_pb2

from clients.simulator import sweep as sweeps
from clients.simulator.failures import ScenarioError
from clients.simulator.result import encoded
from clients.simulator.settings_grid import Axis, NamedSettings, grid, read_axis
from clients.simulator.sweep import Run, simulate, sweep
from tests.unit.clients.simulator.test_simulation import small

BASE = NamedSettings("defaults", plan_pb2.PlanSettings())


def runs(count: int) -> list[Run]:
    axis = Axis("scaleDown.unneededTime", tuple(f"{60 * (number + 1)}s" for number in range(count)))
    chosen = grid([BASE], [axis])
    scenario = small(duration="30m")
    return [Run(scenario, (), one.name, one.settings.SerializeToString(deterministic=True)) for one in chosen]


def test_one_process_and_four_give_the_same_bytes() -> None:
    alone, spread = sweep(runs(4), processes=1), sweep(runs(4), processes=4)
    assert [encoded(one) for one in alone] == [encoded(one) for one in spread]
    assert len({encoded(one) for one in alone}) == 4


def test_a_dask_cluster_gives_the_same_bytes_as_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here another executor is in its place."""
    asked: list[str] = []

    @contextmanager
    def pool(address: str) -> Iterator[Executor]:
        asked.append(address)
        with ThreadPoolExecutor(1) as threads:
            yield threads

    monkeypatch.setattr(sweeps, "dask_pool", pool)
    spread = sweep(runs(3), dask="tcp://10.0.0.1:8786")
    assert asked == ["tcp://10.0.0.1:8786"]
    assert [encoded(one) for one in spread] == [encoded(one) for one in sweep(runs(3))]


needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="the extra dask is not installed")
SCENARIO = """\
duration: 30m
nodeGroups: [{name: a, size: 3, maxSize: 5}]
workloads: [{name: web, replicas: 2, pod: {cpu: 500m}}]
"""


@contextmanager
def scheduler(directory: Path) -> Iterator[str]:
    """A Dask scheduler on loopback; yield its address."""
    file = directory / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter", "--scheduler-file", str(file)]
    with serving("distributed.cli.dask_scheduler", options, directory / "scheduler.log") as process:
        until(lambda: (file.exists() and file.read_text().endswith("}")) or process.poll() is not None)
        yield json.loads(file.read_text())["address"]


@contextmanager
def serving(module: str, options: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", module, *options], stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


def until(reached: Callable[[], object]) -> None:
    end_s = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < end_s
        time.sleep(0.1)


def simulate_on(address: str, directory: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    path = directory / "scenario.yaml"
    path.write_text(SCENARIO)
    axis = "scaleDown.unneededTime=60s,120s,180s"
    command = [sys.executable, "-m", "clients.cli", "simulate", str(path), "--sweep", axis, "-o", "json", *more]
    given = ["--dask", address] if address else []
    return subprocess.run([*command, *given], capture_output=True, text=True, timeout=280, check=False)


@needs_dask
def test_workers_of_a_real_dask_cluster_give_the_same_bytes(tmp_path: Path) -> None:
    options = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path)]
    with scheduler(tmp_path) as address:
        nobody = simulate_on(address, tmp_path)
        assert (nobody.returncode, "this scheduler has no workers" in nobody.stderr) == (2, True), nobody.stderr
        with serving("distributed.cli.dask_worker", [address, *options, "--nworkers", "2"], tmp_path / "worker.log"):
            until(lambda: (tmp_path / "worker.log").read_text().count("Registered to") >= 2)
            spread = simulate_on(address, tmp_path)
    alone = simulate_on("", tmp_path)
    assert (spread.returncode, alone.returncode) == (0, 0), spread.stderr + (tmp_path / "worker.log").read_text()
    assert spread.stdout == alone.stdout


@needs_dask
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "nowhere"])
def test_an_address_without_scheduler_is_named(address: str) -> None:
    with pytest.raises(ScenarioError, match=r"^--dask .*: no Dask scheduler answers there"):
        sweep(runs(1), dask=address)


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def interrupted(run: Run) -> dict[str, object]:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(run.name)
        return simulate(run)

    monkeypatch.setattr(sweeps, "simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(runs(3), directory=tmp_path)
    first = list(made)
    made.clear()
    again = sweep(runs(3), directory=tmp_path)
    assert (len(first), len(made)) == (2, 1)
    assert set(first).isdisjoint(made)
    monkeypatch.undo()
    assert [encoded(one) for one in again] == [encoded(one) for one in sweep(runs(3))]


@pytest.mark.parametrize("is_cut_off", [True, False], ids=["cut off", "of another version"])
def test_a_file_of_a_sweep_that_cannot_be_used_is_made_again(tmp_path: Path, *, is_cut_off: bool) -> None:
    (whole,) = sweep(runs(1), directory=tmp_path)
    (kept,) = tmp_path.iterdir()
    without_drains = encoded({name: value for name, value in whole.items() if name != "drains"})
    kept.write_bytes(kept.read_bytes()[:100] if is_cut_off else without_drains)
    assert encoded(sweep(runs(1), directory=tmp_path)[0]) == encoded(whole)


def test_a_grid_has_every_combination() -> None:
    axes = [read_axis("scaleDown.utilizationThreshold=0.4,0.6"), read_axis("scaleUp.expanders=[PRICE],[LEAST_NODES]")]
    found = grid([BASE], axes)
    assert len(found) == 4
    assert found[0].name == "defaults utilizationThreshold=0.4 expanders=['PRICE']"
    assert [one.settings.scale_down.utilization_threshold for one in found] == [0.4, 0.4, 0.6, 0.6]
    assert list(found[1].settings.scale_up.expanders) == [plan_pb2.Expander.LEAST_NODES]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("scaleDown", "give PATH=VALUE"),
        ("scaleDown.nothing=1", "nothing"),
        ("scaleDown.utilizationThreshold=much", "utilizationThreshold"),
        ("scaleDown.enabled.x=1", "x"),
    ],
)
def test_a_field_that_cannot_be_swept_is_named(text: str, told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        grid([BASE], [read_axis(text)])


@pytest.mark.parametrize("processes", [1, 2])
def test_settings_that_the_planner_refuses_are_named(processes: int) -> None:
    refused = grid([BASE], [Axis("scaleDown.utilizationThreshold", (7, 8))])
    wrong = [Run(small(duration="1m"), (), one.name, one.settings.SerializeToString()) for one in refused]
    with pytest.raises(ScenarioError, match=r"settings defaults utilizationThreshold=[78]: .*utilization_threshold"):
        sweep(wrong, processes=processes)
