"""`trimtab simulate` as a user runs it."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run
from tests.builders.messages import write_snapshot

SCENARIO = """\
name: tiny
seed: 3
duration: 40m
nodeGroups:
- {name: a, size: 3, maxSize: 5, price: 0.5}
workloads:
- {name: web, replicas: 2, pod: {cpu: 500m}}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    return path


def test_settings_are_compared_on_the_same_load(trimtab: Run, scenario: Path, tmp_path: Path) -> None:
    settings = tmp_path / "slow.yaml"
    settings.write_text("scaleDown: {unneededTime: 1800s}\n")
    saved = tmp_path / "out.json.gz"
    done = trimtab(
        "simulate", scenario, "--settings", "upstream", "--settings", settings, "--processes", 1, "--save", saved
    )
    assert done.code == 0, done.err
    lines = {line[:26].strip(): line[26:].split() for line in done.out.splitlines()}
    assert lines["tiny, 40 min, seed 3"] == ["upstream", "slow"]
    assert lines["nodes removed"] == ["2", "2"]
    upstream, slow = (float(hours) for hours in lines["node-hours"])
    assert upstream < slow
    assert "-o html=report.html" in done.err
    assert saved.stat().st_size > 0


def test_node_groups_have_the_prices_of_the_offerings_of_a_file(trimtab: Run, tmp_path: Path) -> None:
    scenario, offers, prices = tmp_path / "tiny.yaml", tmp_path / "offers.csv", tmp_path / "prices.csv"
    labels = "labels: {node.kubernetes.io/instance-type: m5.large}"
    scenario.write_text(SCENARIO.replace("40m", "5m").replace("price: 0.5", f"zone: z1, {labels}"))
    offers.write_text("instance_type,cpu,memory_gib,zone,price\nm5.large,2,8,z1,0.25\n")
    prices.write_text("type,zone,price\nm5.large,z1,0.5\n")

    def cost(*options: str | Path) -> float:
        return float(trimtab("simulate", scenario, "-o", "json", *options).document()["summary"]["money"])

    assert cost("--offers", offers) > 0
    assert cost("--offers", offers, "--prices", prices) == pytest.approx(2 * cost("--offers", offers), rel=1e-4)


def test_a_single_simulation_gives_its_result_as_json(trimtab: Run, scenario: Path) -> None:
    result = trimtab("simulate", scenario, "-o", "json", "--seed", 9).document()
    assert result["kind"] == "SimulationResult"
    assert result["scenario"]["seed"] == 9
    assert len(result["samples"]["time"]) == len(result["samples"]["nodes"]["a/"]) == 41
    assert [one["kind"] for one in result["decisions"]] == ["scale-down"]


def test_recorded_rounds_are_simulated_as_they_are(trimtab: Run, tmp_path: Path) -> None:
    group = k8s.node_group("a", selector={"pool": "a"})
    nodes = [k8s.node(name, labels={"pool": "a"}, cpu="4") for name in ("n1", "n2")]
    web = k8s.replica_set("web", 2)
    path = tmp_path / "cluster.trimtab"
    write_snapshot(path, k8s.snapshot_of(group, *nodes, web, *k8s.pods_of(web, 2, cpu="500m", node="n1")))
    result = trimtab("simulate", path, "-o", "json").document()
    assert (result["scenario"]["name"], result["scenario"]["durationS"]) == ("cluster", 3600)
    assert (result["samples"]["nodes"]["a/"][0], result["summary"]["nodesAtEnd"]) == (2, 1)
    assert result["summary"]["podsPendingAtEnd"] == 0


def test_the_schema_is_json_without_a_scenario(trimtab: Run) -> None:
    assert json.loads(trimtab("simulate", "--schema").out)["title"] == "Trimtab simulation scenario"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "no SCENARIO is given"),
        (("absent.yaml",), "absent.yaml: No such file"),
        (("{scenario}", "--settings", "upstream", "--settings", "upstream"), "upstream are given twice"),
        (("{scenario}", "--settings", "absent.yaml"), "settings file absent.yaml"),
        (("{scenario}", "--sweep", "nothing.here=1"), "nothing"),
        (("{scenario}", "--limit", "money<=1"), "--limit needs --recommend"),
        (("{scenario}", "--recommend", "--limit", "joy>=1"), "joy is no figure"),
        (("{scenario}", "--recommend", "--limit", "money<=much"), "much is no number"),
        (("{scenario}", "--sweep", "scaleDown.unneededTime=soon"), "scaleDown.unneededTime: 'soon' is "),
        (("{scenario}", *("--sweep", "scaleDown.unneededTime=60s") * 2), "scaleDown.unneededTime: it is given twice"),
    ],
)
def test_bad_input_ends_with_a_sentence(trimtab: Run, scenario: Path, arguments: tuple[str, ...], told: str) -> None:
    done = trimtab("simulate", *(argument.replace("{scenario}", str(scenario)) for argument in arguments))
    assert done.code == 2
    assert told in done.err


def test_a_setting_that_the_planner_refuses_is_named_with_its_file_and_key(
    trimtab: Run, scenario: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "odd.yaml"
    settings.write_text("scaleDown: {utilizationThreshold: 9}")
    done = trimtab("simulate", scenario, "--settings", settings)
    assert done.code == 2
    assert f"settings file {settings}: scaleDown.utilizationThreshold: 9 is above 1" in done.err


def test_many_settings_have_a_line_each(trimtab: Run, scenario: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Test processes that run side by side have a terminal of 80 columns.
    monkeypatch.setenv("COLUMNS", "120")
    scenario.write_text(SCENARIO.replace("40m", "2m"))
    values = ",".join(f"{60 * number}s" for number in range(1, 8))
    sweep = ("--sweep", f"scaleDown.unneededTime={values}", "--processes", 1)
    lines = trimtab("simulate", scenario, *sweep).out.splitlines()
    assert lines[0].split()[-6:] == ["%", "within", "evictions", "added", "removed", "pending"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["defaults", f"unneededTime={60 * number}s"] for number in range(1, 8)
    ]
    assert all(len(line.split()) > 8 for line in lines[1:])


def test_a_duration_of_a_sweep_is_written_as_in_a_settings_file(trimtab: Run, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("40m", "2m"))
    assert trimtab("simulate", scenario, "--sweep", "scaleDown.unneededTime=10m", "-o", "json").code == 0


def test_arrivals_after_the_end_are_reported(trimtab: Run, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("time,cpu,memory\n0,1,1Gi\n2m,1,1Gi\n3m,1,1Gi\n")
    path = tmp_path / "scenario.yaml"
    path.write_text("duration: 2m\ntrace: {file: trace.csv}\nnodeGroups: [{name: a, size: 1, cpu: 8}]\n")
    done = trimtab("simulate", path, "-o", "json")
    assert (done.code, "2 lines of the trace come after the end at 2 min" in done.err) == (0, True)


def test_the_cheapest_settings_under_a_limit_are_recommended(trimtab: Run, scenario: Path, tmp_path: Path) -> None:
    saved = tmp_path / "out.json"
    sweep = ("--sweep", "scaleDown.unneededTime=60s,600s,1200s", "--processes", 1, "--keep", tmp_path / "runs")
    done = trimtab("simulate", scenario, *sweep, "--recommend", "--limit", "nodes_removed<=2", "--save", saved)
    assert done.code == 0, done.err
    assert "Recommended: defaults unneededTime=60s, " in done.out
    assert "time_to_schedule_p99" not in done.out.split("Trade-off")[0].split("Recommended")[0]
    found = json.loads(saved.read_text())["recommendation"]
    assert found["recommended"] == found["curve"][0] == "defaults unneededTime=60s"
    strict = trimtab("simulate", scenario, *sweep, "--recommend", "--limit", "nodes_removed<=1")
    assert strict.code == 1
    assert "No settings keep all limits." in strict.out
    assert "defaults unneededTime=600s: nodes_removed<=1 but 2" in strict.out


def test_a_recording_is_simulated_as_it_is(trimtab: Run) -> None:
    recording = Path(str(files("clients").joinpath("data/recordings/gardener-gcp-g2.json.gz")))
    done = trimtab("simulate", recording, "--processes", 1)
    assert done.code == 0, done.err
    lines = {line[:34].strip(): line[34:].split() for line in done.out.splitlines()}
    assert lines["nodes added"] == ["1"]
    assert lines["pods scheduled"] == ["40"]
