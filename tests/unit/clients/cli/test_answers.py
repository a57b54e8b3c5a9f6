"""The answers of the commands, in the format that users rely on."""

import json
from pathlib import Path

import pytest
import yaml

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.unit.clients.cli.report.pages import page_of
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.summary import net_lines
from trimtab.clients.cluster_view import ClusterView
from trimtab.common.objects import read_files
from trimtab.v1 import plan_pb2, snapshot_pb2

NOW = "2026-03-01T00:00:00Z"


@pytest.fixture
def quick(tmp_path: Path) -> Path:
    """Write settings without timers."""
    path = tmp_path / "quick.yaml"
    path.write_text("scaleDown: {unneededTime: 0s}\n")
    return path


def test_a_plan_has_the_shape_that_must_not_change(trimtab: Run, cluster: Path, quick: Path) -> None:
    answer = trimtab("plan", "--no-advice", cluster, "--settings", quick, "--now", NOW, "-o", "json").document()
    decision = answer["scaleDown"]
    assert set(answer) >= {"scaleDown", "state", "diagnostics"}
    assert {"unneeded", "unremovable", "deleteEmpty", "drain", "result", "evaluated", "notEvaluated"} <= set(decision)
    assert [(one["node"], one["since"]) for one in decision["unneeded"]] == [("n1", NOW)]
    assert decision["unneeded"][0]["destinations"] == {"default/web-0": "n2"}
    assert decision["drain"] == ["n1"]
    assert decision["deleteEmpty"] == []
    assert [(one["node"], one["reason"], one["blockingPod"]) for one in decision["unremovable"]] == [
        ("n2", "NOT_UNDERUTILIZED", ""),
        ("n3", "BLOCKED_BY_POD", "default/bare"),
    ]
    assert decision["result"] == "SCALE_DOWN_NODE_DELETE_STARTED"


def test_a_decision_that_fails_is_shown_beside_the_others(
    trimtab: Run, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise IndexError("somewhere")

    monkeypatch.setattr("trimtab.planner.scale_down.decision.decide_scale_down", fail)
    asked = ("plan", cluster, "--now", NOW, "--decision", "scale-up", "--decision", "scale-down")
    shown = trimtab(*asked)
    assert shown.code == 1
    assert "Scale-down failed: an error of the planner (IndexError)" in shown.out
    assert "nodes can go" not in shown.out
    assert "decision_failed" in shown.err
    answer = json.loads(trimtab(*asked, "-o", "json").out)
    assert answer["scaleDown"]["result"] == "SCALE_DOWN_ERROR"
    assert [one["failed"] for one in answer["diagnostics"]["decisions"]] == [False, True]


def test_yaml_says_the_same_as_json(trimtab: Run, cluster: Path) -> None:
    as_json = trimtab("plan", "--no-advice", cluster, "--now", NOW, "-o", "json").document()
    as_yaml = yaml.safe_load(trimtab("plan", "--no-advice", cluster, "--now", NOW, "-o", "yaml").out)
    for answer in (as_json, as_yaml):
        del answer["diagnostics"]
    assert as_yaml == as_json


def test_a_table_names_what_goes_and_why_the_rest_stays(trimtab: Run, cluster: Path, quick: Path) -> None:
    outcome = trimtab("plan", "--no-advice", cluster, "--settings", quick)
    assert (outcome.code, outcome.err) == (0, "")
    for part in (
        "1 of 3 nodes can go",
        "1 goes now (1 after a drain)",
        "utilization above the threshold",
        "pod default/bare",
    ):
        assert part in outcome.out


def test_timers_continue_from_the_state_of_the_last_answer(trimtab: Run, cluster: Path, tmp_path: Path) -> None:
    first = trimtab("plan", "--no-advice", cluster, "--now", NOW, "-o", "json")
    assert first.document()["scaleDown"]["drain"] == []
    assert next(one["reason"] for one in first.document()["nodes"] if one["wave"]) == "NOT_UNNEEDED_LONG_ENOUGH"
    last = tmp_path / "last.json"
    for written in (first.out, json.dumps(first.document()["state"])):
        last.write_text(written)
        later = trimtab(
            "plan", "--no-advice", cluster, "--now", "2026-03-01T00:10:00Z", "--state", last, "-o", "json"
        ).document()
        assert later["scaleDown"]["unneeded"][0]["since"] == NOW
        assert later["scaleDown"]["drain"] == ["n1"]


def test_fit_prints_a_line_for_each_waiting_pod_and_node(trimtab: Run, cluster: Path) -> None:
    outcome = trimtab("explain", cluster, "fit", "-o", "json")
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    lacking = {"fits": False, "reasons": ["INSUFFICIENT_RESOURCES"], "insufficient": ["cpu"]}
    assert lines == [{"pod": "default/waiting", "node": name, **lacking} for name in ("n1", "n2", "n3")]


def test_fit_of_a_bound_pod_leaves_it_out_of_its_own_way(trimtab: Run, tmp_path: Path) -> None:
    file = listed(tmp_path, k8s.node("n1", cpu="1"), k8s.node("n2", cpu="500m"), k8s.pod("p", cpu="800m", node="n1"))
    lines = [json.loads(line) for line in trimtab("explain", file, "fit/default/p", "-o", "json").out.splitlines()]
    assert [(line["node"], line["fits"], line["reasons"]) for line in lines] == [
        ("n1", True, []),
        ("n2", False, ["INSUFFICIENT_RESOURCES"]),
    ]


def test_fit_as_a_table_says_which_resource_lacks_and_by_how_much(
    trimtab: Run, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    out = trimtab("explain", cluster, "fit").out
    # n1 has 3.5 cores free, n3 3.8: the nearest is the example.
    assert "default/waiting fits none of 3 nodes" in out
    assert "lacks 0.1 cores (requests 3.9 cores, free 3.8 cores) (on n3)" in out


def test_fit_as_a_table_shows_pods_of_one_controller_once(trimtab: Run, tmp_path: Path) -> None:
    web = k8s.replica_set("web", replicas=3)
    file = listed(tmp_path, k8s.node("n1"), web, *k8s.pods_of(web, 3, cpu="1"))
    out = trimtab("explain", file, "fit").out
    assert "and 2 more" in out
    assert out.count("fits 1 of 1 node") == 1


def test_fit_without_waiting_pods_prints_nothing(trimtab: Run, tmp_path: Path) -> None:
    outcome = trimtab("explain", listed(tmp_path, k8s.node("n1")), "fit", "-o", "json")
    assert (outcome.code, outcome.out) == (0, "")


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        pytest.param("pod/default/waiting", ["waits for a node", "none of 3 nodes", "wants 3.9 cores"], id="waits"),
        pytest.param("pod/default/web-0", ["runs on n1", "It fits"], id="runs"),
        pytest.param("node/n1", ["It goes now", "default/web-0 → n2"], id="goes"),
        pytest.param("node/n2", ["It stays", "NOT_UNDERUTILIZED", "utilization is 75 %"], id="used too much"),
        pytest.param("node/n3", ["It stays", "default/bare", "has no controller that is known"], id="blocked"),
    ],
)  # fmt: skip
def test_explanations_are_sentences(
    trimtab: Run, cluster: Path, quick: Path, subject: str, told: list[str]
) -> None:  # fmt: skip
    outcome = trimtab("explain", cluster, subject, "--settings", quick)
    assert outcome.code == 0, outcome.err
    for part in told:
        assert part in outcome.out


def test_a_node_with_more_pods_than_its_budget_allows_at_once_goes(trimtab: Run, tmp_path: Path, quick: Path) -> None:
    web = k8s.replica_set("web", replicas=2)
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2")]
    file = listed(
        tmp_path,
        *nodes,
        web,
        *k8s.pods_of(web, 2, cpu="100m", node="n1"),
        k8s.pdb("web", 1, labels=web["spec"]["selector"]["matchLabels"]),
        k8s.pod("large", cpu="3", node="n2", owner=web),
        k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}),
    )
    out = trimtab("explain", file, "node/n1", "--settings", quick).out
    assert "It goes now, after a drain." in out


def test_a_node_of_a_later_wave_says_in_which_and_what_it_waits_for(trimtab: Run, tmp_path: Path, quick: Path) -> None:
    web = k8s.replica_set("web", replicas=2)
    file = listed(
        tmp_path,
        *(k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2", "n3")),
        web,
        *(k8s.pod(f"web-{name}", "100m", node=name, owner=web, labels={"app": "web"}) for name in ("n1", "n2")),
        k8s.pdb("web", 1, labels={"app": "web"}),
        k8s.pod("large", cpu="3", node="n3", owner=web),
        k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"}),
    )
    out = trimtab("explain", file, "node/n2", "--settings", quick).out
    assert "goes in a later wave, when disruption budgets allow evictions again (LATER_WAVE)" in out
    assert "It goes in wave 2" in out
    table = trimtab("plan", "--no-advice", file, "--settings", quick).out
    assert "1 more follows in wave 2, as disruption budgets recover." in table
    document = trimtab("plan", "--no-advice", file, "--settings", quick, "-o", "json").document()
    assert [(one["node"], one["wave"]) for one in document["nodes"] if one["wave"]] == [("n1", 1), ("n2", 2)]
    page = page_of(trimtab, tmp_path, file, "--settings", quick)
    assert "can go in wave 2" in page.text + "".join(page.scripts)
    for text in (table, page.text, trimtab("advise", file, "--settings", quick).out):
        assert "2 of 3 nodes can go (67 %)." in text


def test_an_explained_timer_says_how_long_is_left(trimtab: Run, cluster: Path) -> None:
    out = trimtab("explain", cluster, "node/n1", "--now", NOW).out
    assert "NOT_UNNEEDED_LONG_ENOUGH" in out
    assert "10 min more" in out


def test_explanations_are_documents_too(trimtab: Run, cluster: Path) -> None:
    node = trimtab("explain", cluster, "node/n3", "-o", "json").document()
    assert (node["verdict"]["fate"], node["verdict"]["blockingPod"]) == ("STAYS", "default/bare")
    pod = trimtab("explain", cluster, "pod/default/waiting", "-o", "json").document()
    assert [one["reasons"] for one in pod["fit"]["nodes"]] == 3 * [["INSUFFICIENT_RESOURCES"]]
    assert any(one.get("lead") == "Pod default/waiting" for one in pod["blocks"])


def test_every_node_is_in_exactly_one_list_on_every_recording(trimtab: Run) -> None:
    recordings = sorted(Path("clients/data/recordings").glob("*.json.gz"))
    assert len(recordings) == 6
    for recording in recordings:
        decision = trimtab("plan", "--no-advice", recording, "-o", "json").document()["scaleDown"]
        named = [one["node"] for one in (*decision["unneeded"], *decision["unremovable"])]
        assert sorted(named) == sorted(node.name for node in read_files([recording]).snapshot.nodes)
        assert all(one["reason"] != "UNSPECIFIED" for one in decision["unremovable"])


@pytest.mark.parametrize(
    ("new_size", "told"),
    [(2, "1 node fewer"), (3, "as many as now"), (5, "2 nodes more")],
)
def test_where_nodes_of_one_group_come_and_go_the_sum_is_said(new_size: int, told: str) -> None:
    fates = [plan_pb2.NodeFate.GOES_NOW, plan_pb2.NodeFate.REPLACED, plan_pb2.NodeFate.STAYS]
    response = plan_pb2.PlanResponse(
        nodes=[plan_pb2.NodeVerdict(node=f"n{at}", node_group="a", fate=fate) for at, fate in enumerate(fates)]
    )
    response.nodes.add(node="m", node_group="b", fate=plan_pb2.NodeFate.GOES_LATER)
    response.scale_up.splits.add(node_group="a", current_size=2, new_size=new_size)
    response.replacement.waves.add(new_nodes=[plan_pb2.ReplacementNode(name="a#0", node_group="a")])
    answer = PlanAnswer(response, ClusterView(snapshot_pb2.ClusterSnapshot(strings=[""])), plan_pb2.PlanSettings(), 0)
    (line,) = net_lines(answer)
    assert line.text == f"Of a, 2 go and {new_size - 1} come: {told}."


def test_sums_of_several_clusters_name_the_currency(trimtab: Run, cluster: Path, tmp_path: Path, quick: Path) -> None:
    prices = tmp_path / "prices.csv"
    prices.write_text("group,price,currency\na,2,EUR\n")
    options = ("--cluster", f"a={cluster}", "--cluster", f"b={cluster}", "--settings", quick, "--prices", prices)
    assert " EUR an hour" in trimtab("plan", "--no-advice", *options).out
    assert "EUR a month) could." in " ".join(trimtab("advise", *options).out.split())
