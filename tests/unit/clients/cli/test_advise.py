"""`trimtab advise`, and the section of `trimtab plan`: on recorded real clusters, as JSON, with a running planner, with
bad input.
"""

from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.builders.planner_process import running
from trimtab.clients.planner_client import PlannerClient
from trimtab.clients.rpc.client import RetryPolicy

ROOT = Path(__file__).parents[4]
RECORDINGS = ROOT / "clients/data/recordings"
GOLDEN = sorted((ROOT / "tests/stored/advice").glob("*.txt"))
NOW = ("--now", "2026-06-01T00:00:00Z")
STORED = {"volumes": [{"name": "v", "emptyDir": {}}]}


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Write two nodes at 2 an hour; a pod that keeps data on each, one of which the other node has room for."""
    web = k8s.replica_set("web", replicas=2)
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}, price=2.0)
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2")]
    pods = [k8s.pod(f"web-{i}", node=f"n{i}", cpu=f"{i}", owner=web, spec=STORED) for i in (1, 2)]
    return listed(tmp_path, group, *nodes, web, *pods)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_advice_on_a_recorded_cluster_is_the_stored_one(trimtab: Run, golden: Path) -> None:
    outcome = trimtab("advise", RECORDINGS / f"{golden.stem}.json.gz", *NOW, "-v")
    assert outcome.code == 0, outcome.err
    assert [line.rstrip() for line in outcome.out.splitlines()] == golden.read_text(encoding="utf-8").splitlines()


def test_every_recorded_cluster_has_stored_advice() -> None:
    assert {path.stem for path in GOLDEN} == {path.name.removesuffix(".json.gz") for path in RECORDINGS.glob("*.gz")}


def test_a_plan_ends_with_advice_in_tables_and_has_it_in_json_if_asked(trimtab: Run, stored: Path) -> None:
    shown = trimtab("plan", stored, *NOW).out
    assert "+1    1,460  pods with local storage could be evicted" in shown
    assert "What to change" not in trimtab("plan", stored, *NOW, "--no-advice").out
    plain = trimtab("plan", stored, *NOW, "-o", "json").document()
    advised = trimtab("plan", stored, *NOW, "-o", "json", "--advice").document()
    assert "advice" not in plain
    report = advised.pop("advice")
    assert advised == plain
    (of_settings,) = [one for one in report["advice"] if one["changes"][0]["object"] == ""]
    assert of_settings["changes"] == [
        {
            "object": "",
            "field": "scaleDown.skipNodesWithLocalStorage",
            "keys": ["scaleDown", "skipNodesWithLocalStorage"],
            "before": True,
            "after": False,
            "command": "",
        }
    ]
    assert of_settings["nodes"] == ["n1"]


def test_a_plan_without_scale_down_has_no_advice(trimtab: Run, stored: Path) -> None:
    document = trimtab("plan", stored, *NOW, "--decision", "scale-up", "-o", "json", "--advice").document()
    assert document["advice"]["advice"] == []


def test_settings_that_lift_a_blocker_are_advised_no_more(trimtab: Run, stored: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {skipNodesWithLocalStorage: false}\n")
    out = trimtab("advise", stored, *NOW, "--settings", settings).out
    assert "1 of 2 nodes can go" in out
    assert "LocalStorage" not in out
    assert "No change that was tried frees another node" in out


def test_a_bound_on_plans_says_what_is_left_out(trimtab: Run, stored: Path) -> None:
    assert "more blockers were not tried (--most-plans)" in trimtab("advise", stored, *NOW, "--most-plans", "2").out


def test_unusable_input_is_refused_as_by_plan(trimtab: Run, stored: Path, tmp_path: Path) -> None:
    assert trimtab("advise", tmp_path / "none.json").code == 2
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {utilizationThreshold: 7}\n")
    refused = trimtab("advise", stored, "--settings", settings)
    assert (refused.code, "scaleDown.utilizationThreshold" in refused.err) == (2, True)


def test_a_running_planner_gives_the_same_advice_on_a_real_cluster(trimtab: Run, tmp_path: Path) -> None:
    cluster = RECORDINGS / "openshift-vsphere.json.gz"
    with running(tmp_path, "--metrics-address=") as (_, address):
        with PlannerClient(address, RetryPolicy(total_s=240)) as waiting:
            waiting.wait_until_serving(240)
        remote = trimtab("advise", cluster, *NOW, "-o", "json", "--planner", address).document()
    assert remote == trimtab("advise", cluster, *NOW, "-o", "json").document()
    assert len(remote["advice"]) == 2
