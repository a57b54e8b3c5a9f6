"""Sweeps: the same results however they are spread, and an interrupted one goes on where it stopped."""

import json
import time
from pathlib import Path

import pytest

from tests.builders.simulations import small
from tests.builders.tiers import ci_but
from trimtab.clients.cli.simulate import command
from trimtab.clients.simulation import dask_cluster as dask
from trimtab.clients.simulation import sweep as sweeps
from trimtab.clients.simulation.result import encoded
from trimtab.clients.simulation.scenario_values import ScenarioError
from trimtab.clients.simulation.settings_grid import NamedSettings, SweptField, grid, read_axis
from trimtab.clients.simulation.sweep import Run, sweep
from trimtab.v1 import plan_pb2

read = command.settings_from
BASE = NamedSettings("defaults", plan_pb2.PlanSettings())


def runs(count: int) -> list[Run]:
    axis = SweptField("scaleDown.unneededTime", tuple(f"{60 * (number + 1)}s" for number in range(count)))
    chosen = grid([BASE], [axis], read)
    scenario = small(duration="30m")
    return [Run(scenario, (), one.name, one.settings.SerializeToString(deterministic=True)) for one in chosen]


@pytest.fixture(scope="module")
def alone() -> list[bytes]:
    """Return the results of three runs in this process."""
    return [encoded(one) for one in sweep(runs(3))]


@pytest.mark.ci
def test_one_process_and_two_give_the_same_bytes(alone: list[bytes]) -> None:
    assert [encoded(one) for one in sweep(runs(3), processes=2)] == alone
    assert len(set(alone)) == 3


@pytest.mark.nightly
def test_workers_of_a_dask_cluster_give_the_same_bytes(alone: list[bytes], tmp_path: Path) -> None:
    from distributed import LocalCluster

    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "local_directory": str(tmp_path)}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **here) as cluster:
        address = cluster.scheduler_address
        spread = sweep(runs(3), dask=address)
        cluster.scale(0)
        while cluster.scheduler.workers:
            time.sleep(0.05)
        with pytest.raises(ScenarioError, match="this scheduler has no workers; start some with: dask worker tcp://"):
            sweep(runs(3), dask=address)
    assert [encoded(one) for one in spread] == alone


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x", "nowhere"])
def test_an_address_without_scheduler_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "TIMEOUT_S", 0.5)
    with pytest.raises(ScenarioError, match=r"^--dask .*: no Dask scheduler answers there"):
        sweep(runs(1), dask=address)


@pytest.mark.ci
def test_an_interrupted_sweep_continues_where_it_stopped(
    alone: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    results = {run.name: json.loads(result) for run, result in zip(runs(3), alone, strict=True)}

    def interrupted(run: Run) -> dict[str, object]:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(run.name)
        return results[run.name]

    monkeypatch.setattr(sweeps, "simulate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(runs(3), directory=tmp_path)
    first = list(made)
    made.clear()
    again = sweep(runs(3), directory=tmp_path)
    assert (len(first), len(made)) == (2, 1)
    assert set(first).isdisjoint(made)
    assert [encoded(one) for one in again] == alone


@pytest.mark.ci
@pytest.mark.parametrize("is_cut_off", [True, False], ids=["cut off", "of another version"])
def test_a_file_of_a_sweep_that_cannot_be_used_is_made_again(tmp_path: Path, *, is_cut_off: bool) -> None:
    (whole,) = sweep(runs(1), directory=tmp_path)
    (kept,) = tmp_path.iterdir()
    without_drains = encoded({name: value for name, value in whole.items() if name != "drains"})
    kept.write_bytes(kept.read_bytes()[:100] if is_cut_off else without_drains)
    assert encoded(sweep(runs(1), directory=tmp_path)[0]) == encoded(whole)


def test_a_grid_has_every_combination() -> None:
    axes = [read_axis("scaleDown.utilizationThreshold=0.4,0.6"), read_axis("scaleUp.expanders=[PRICE],[LEAST_NODES]")]
    found = grid([BASE], axes, read)
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
        grid([BASE], [read_axis(text)], read)


@pytest.mark.parametrize("processes", ci_but([1], [1, 2]))
def test_settings_that_the_planner_refuses_are_named(processes: int) -> None:
    refused = grid([BASE], [SweptField("scaleDown.utilizationThreshold", (7, 8))], read)
    wrong = [Run(small(duration="1m"), (), one.name, one.settings.SerializeToString()) for one in refused]
    with pytest.raises(ScenarioError, match=r"defaults utilizationThreshold=[78]: scaleDown\.utilizationThreshold: "):
        sweep(wrong, processes=processes)
