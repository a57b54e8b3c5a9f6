"""`trimtab advise`, and the section of `trimtab plan`: on recorded real clusters, as JSON, of
several clusters, with usage, with bad input.
"""

import json
from pathlib import Path

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed

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


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Path, Path]:
    """Write two nodes at 2 an hour that a Deployment's requests fill, and what its pods use: little."""
    web = k8s.deployment("web", replicas=2)
    of_web = k8s.replica_set("web-1", replicas=2, owner=web)
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}, price=2.0)
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n0", "n1")]
    pods = [k8s.pod(f"web-1-{i}", node=f"n{i}", cpu="3", memory="2Gi", owner=of_web) for i in range(2)]
    containers = [{"name": "main", "usage": {"cpu": "200m", "memory": "300Mi"}}]
    names = ("web-1-0", "web-1-1", "ghost")
    items = [{"metadata": {"namespace": "default", "name": name}, "containers": containers} for name in names]
    usage = tmp_path / "usage.json"
    usage.write_text(json.dumps({"kind": "PodMetricsList", "items": items}))
    return listed(tmp_path, group, *nodes, web, of_web, *pods), usage


@pytest.mark.parametrize(
    ("margin", "requests"),
    [((), "cpu=230m,memory=345Mi"), (("--usage-margin", "50"), "cpu=300m,memory=450Mi")],
)
def test_with_usage_lower_requests_are_advised_with_the_margin_and_never_planned(
    trimtab: Run, measured: tuple[Path, Path], margin: tuple[str, ...], requests: str
) -> None:
    cluster, usage = measured
    done = trimtab("advise", cluster, *NOW, "--usage", usage, *margin, "-v")
    shown = " ".join(done.out.split())
    assert done.out.startswith("None of 2 nodes can go.")
    assert f"kubectl set resources deployment web -n default --containers=main --requests={requests}" in shown
    assert f"(its use and {margin[1] if margin else 15} %)" in shown
    assert "1 pod not in the cluster left out (default/ghost)" in done.err
    assert "set resources" in " ".join(trimtab("plan", cluster, *NOW, "--usage", usage, *margin).out.split())
    assert "set resources" not in trimtab("advise", cluster, *NOW).out


def test_a_negative_margin_is_refused(trimtab: Run, measured: tuple[Path, Path]) -> None:
    cluster, usage = measured
    done = trimtab("advise", cluster, "--usage", usage, "--usage-margin", "-1")
    assert (done.code, "--usage-margin" in done.err) == (2, True)


def test_several_clusters_are_advised_in_one_table_with_sums_the_most_valuable_first(
    trimtab: Run, stored: Path, tmp_path: Path
) -> None:
    clusters = {"cheap": stored, **{name: tmp_path / f"{name}.json" for name in ("unpriced", "dear", "none")}}
    written = json.loads(stored.read_text())
    spec = next(one for one in written["items"] if one["kind"] == "NodeGroup")["spec"]
    spec["price"] = 5.0
    clusters["dear"].write_text(json.dumps(written))
    del spec["price"]
    clusters["unpriced"].write_text(json.dumps(written))
    named = [part for name, path in clusters.items() for part in ("--cluster", f"{name}={path}")]
    done = trimtab("advise", *named, *NOW)
    lines = [line.split() for line in done.out.splitlines()]
    assert done.code == 1, "one cluster cannot be read"
    assert "none: left out: " in done.err
    assert done.out.startswith("None of 6 nodes in 3 clusters can go. With the best changes in each, 3 more (5,110 a")
    rows = [line for line in lines if line and line[0] in (*clusters, "all") and len(line) < 6]
    assert rows == [
        ["dear", "2", "0", "+1", "3,650"],
        ["cheap", "2", "0", "+1", "1,460"],
        ["unpriced", "2", "0", "+1"],
        ["all", "6", "0", "+3", "5,110"],
    ]
    changes = [line[:3] for line in lines if line and line[0] in clusters and len(line) > 5]
    assert changes[:3] == [["dear", "+1", "3,650"], ["dear", "+1", "3,650"], ["cheap", "+1", "1,460"]]
    document = json.loads(trimtab("advise", *named, *NOW, "-o", "json").out)
    assert document["total"] == {
        "nodes": 6, "baseNodeCount": 0, "nodeCount": 3, "savingPerHour": 7.0, "savingPerMonth": 5110.0,
    }  # fmt: skip
    assert [(one["name"], "error" in one) for one in document["clusters"]] == [
        *(("dear", False), ("cheap", False), ("unpriced", False), ("none", True)),
    ]


def test_usage_and_state_belong_to_one_cluster(trimtab: Run, stored: Path) -> None:
    for option in ("--usage", "--state"):
        done = trimtab("advise", "--cluster", f"a={stored}", "--cluster", f"b={stored}", option, stored)
        assert (done.code, f"{option} belongs to one cluster" in done.err) == (2, True)


def test_a_bound_on_plans_says_what_is_left_out(trimtab: Run, stored: Path) -> None:
    out = " ".join(trimtab("advise", stored, *NOW, "--most-plans", "2").out.split())
    assert "(2 what-if plans tried). 1 blocker not tried: --most-plans." in out


def test_unusable_input_is_refused_as_by_plan(trimtab: Run, stored: Path, tmp_path: Path) -> None:
    assert trimtab("advise", tmp_path / "none.json").code == 2
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {utilizationThreshold: 7}\n")
    refused = trimtab("advise", stored, "--settings", settings)
    assert (refused.code, "scaleDown.utilizationThreshold" in refused.err) == (2, True)
