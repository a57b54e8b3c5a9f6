"""`trimtab plan FILE` begins with what matters: scale-up for pending pods, how many nodes can go, and the saving."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from trimtab.clients.cli.answers.page import BLOCKS
from trimtab.planner.decisions.table import TABLE

NOW = ("--now", "2026-03-01T00:00:00Z")
TYPE, ZONE = "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    """Write two expensive and two cheap nodes: one of each can go, one is used, an exhausted budget blocks one."""
    groups = [
        k8s.node_group(name, min_size=0, max_size=5, selector={"pool": name}, price=price)
        for name, price in (("dear", 2.0), ("cheap", 0.5))
    ]
    nodes = [k8s.node(name, labels={"pool": name.split("-")[0]}) for name in ("dear-1", "dear-2", "cheap-1", "cheap-2")]
    web, db = k8s.replica_set("web", replicas=3), k8s.replica_set("db", replicas=2)
    pods = [
        k8s.pod("web-0", cpu="500m", node="dear-1", owner=web),
        k8s.pod("web-1", cpu="100m", node="cheap-1", owner=web),
        k8s.pod("web-2", cpu="2500m", node="cheap-2", owner=web),
        k8s.pod("db-0", cpu="500m", node="dear-2", owner=db, labels={"app": "db"}),
    ]
    budget = k8s.pdb("db", 0, labels={"app": "db"}, healthy=1, desired=1, expected=1)
    return listed(tmp_path, *groups, *nodes, web, db, *pods, budget)


def lines(out: str) -> list[str]:
    return [line.rstrip() for line in out.splitlines()]


def test_a_plan_says_what_can_go_what_that_saves_when_and_what_blocks_the_rest(trimtab: Run, priced: Path) -> None:
    out = trimtab("plan", "--no-advice", priced, *NOW).out
    first = lines(out)[0]
    assert "2 of 4 nodes can go (50 %)" in first
    assert "saves 2.50 of 5.00 an hour (50 %), 1,825 a month" in first
    rows = [line for line in lines(out) if "in 10 min" in line and line.startswith(("dear", "cheap"))]
    assert [row.split()[:2] for row in rows] == [["dear-1", "2.00"], ["cheap-1", "0.50"]]
    for told in (
        "None goes now.",
        "2 could be removed after 10 min of being unneeded",
        "cheap-2 (1)",
        "budget default/db: no eviction allowed (1 of 1 pods healthy, 1 required)",
    ):
        assert told in out
    assert "20779 d" not in out, "no age since 1970 where no timer is kept"


@pytest.mark.parametrize(
    ("budgets", "text"),
    [
        pytest.param([("db", 1)], "budget default/db: 1 eviction allowed at once, too few", id="used by another node"),
        pytest.param(
            [("db", 1), ("more", 1)], "budgets default/db, default/more match pod default/db-0", id="two budgets"
        ),
    ],
)
def test_a_budget_that_allows_too_few_evictions_says_how_many(
    trimtab: Run, tmp_path: Path, budgets: list[tuple[str, int]], text: str
) -> None:
    db = k8s.replica_set("db", replicas=4)
    labels = {"app": "db"}
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2", "n3")]
    pods = [k8s.pod(f"db-{i}", cpu="100m", node=node, owner=db, labels=labels) for i, node in enumerate(("n1", "n2"))]
    settings = tmp_path / "settings.yaml"
    settings.write_text("scaleDown: {maxWaves: 1}")
    limits = [k8s.pdb(name, allowed, labels=labels, healthy=2, desired=1, expected=2) for name, allowed in budgets]
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"})
    busy = k8s.pod("busy", cpu="3", node="n3", owner=db)
    file = listed(tmp_path, *nodes, db, *pods, busy, *limits, group)
    assert text in trimtab("plan", "--no-advice", file, *NOW, "--settings", settings).out


def test_codes_are_shown_with_verbose_only(trimtab: Run, priced: Path) -> None:
    brief, verbose = (trimtab("plan", "--no-advice", priced, *NOW, *more).out for more in ((), ("--verbose",)))
    for code in ("NOT_UNDERUTILIZED", "NOT_ENOUGH_PDB", "NOT_UNNEEDED_LONG_ENOUGH"):
        assert code not in brief
        assert code in verbose


def test_without_prices_the_answer_says_what_is_freed(trimtab: Run, cluster: Path) -> None:
    (line,) = [
        line for line in lines(trimtab("plan", "--no-advice", cluster, *NOW).out) if "can go" in line and "of 3" in line
    ]
    assert "1 of 3 nodes can go (33 %)" in line
    assert "4 cores and 16.0 GiB" in line


def unlabelled_groups(directory: Path) -> Path:
    """Write a cluster as kubectl prints it: no node groups, two machine types, a control-plane node."""
    nodes = [
        k8s.node("a", labels={TYPE: "large"}, zone="z1"),
        k8s.node("b", labels={TYPE: "large"}, zone="z1"),
        k8s.node("c", labels={TYPE: "small"}, zone="z2"),
        k8s.node("master", labels={TYPE: "small", "node-role.kubernetes.io/control-plane": ""}, zone="z2"),
    ]
    return listed(directory, *nodes, k8s.pod("busy", cpu="3", node="b", owner=k8s.replica_set("busy")))


def reasons(answer: Any) -> dict[str, str]:
    return {one["node"]: one["reason"] for one in answer["scaleDown"]["unremovable"]}


def test_input_without_node_groups_is_grouped_by_type_and_zone(trimtab: Run, tmp_path: Path) -> None:
    outcome = trimtab("plan", "--no-advice", unlabelled_groups(tmp_path), *NOW, "-o", "json")
    assert reasons(outcome.document()) == {"b": "NOT_UNDERUTILIZED", "master": "NOT_AUTOSCALED"}
    assert "grouped by node pool, instance type and zone into 2 groups" in outcome.err
    assert "unlabelled" not in outcome.err


@pytest.mark.parametrize(
    "label",
    [
        "karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "agentpool",
        "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "worker.gardener.cloud/pool",
    ],
)  # fmt: skip
def test_nodes_of_different_pools_are_in_different_groups(trimtab: Run, tmp_path: Path, label: str) -> None:
    nodes = [k8s.node(name, labels={TYPE: "large", label: name}, zone="z1") for name in ("a", "b")]
    outcome = trimtab("plan", listed(tmp_path, *nodes, k8s.node("bare")), *NOW)
    assert "into 3 groups" in outcome.err
    assert "Nodes without such labels form the group unlabelled." in outcome.err


def test_a_label_that_no_node_has_is_refused_and_a_near_one_named(trimtab: Run, tmp_path: Path) -> None:
    outcome = trimtab("plan", unlabelled_groups(tmp_path), "--group-by", f"{ZONE},{TYPE}s")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"--group-by {TYPE}s: no node has this label; did you mean {TYPE}?" in outcome.err


@pytest.mark.parametrize(
    ("labels", "stay"),
    [
        pytest.param("none", {"a", "b", "c", "master"}, id="no groups"),
        pytest.param(TYPE, {"b", "master"}, id="one label"),
    ],
)
def test_groups_are_made_by_the_requested_labels(trimtab: Run, tmp_path: Path, labels: str, stay: set[str]) -> None:
    answer = trimtab(
        "plan", "--no-advice", unlabelled_groups(tmp_path), *NOW, "--group-by", labels, "-o", "json"
    ).document()
    assert set(reasons(answer)) == stay


def test_explain_makes_the_same_groups_as_plan(trimtab: Run, tmp_path: Path) -> None:
    out = trimtab("explain", unlabelled_groups(tmp_path), "node/a", *NOW).out
    assert "of node group large/z1" in out


def test_groups_by_label_beside_groups_of_the_input_are_refused(trimtab: Run, priced: Path) -> None:
    outcome = trimtab("plan", "--no-advice", priced, "--group-by", TYPE)
    assert outcome.code == 2
    assert "--group-by" in outcome.err


@pytest.mark.parametrize("labels", ["", ",", "a,,b"])
def test_group_by_needs_names_of_labels(trimtab: Run, priced: Path, labels: str) -> None:
    outcome = trimtab("plan", "--no-advice", priced, "--group-by", labels)
    assert (outcome.code, outcome.out) == (2, "")


def test_waiting_orphaned_and_unready_pods_are_mentioned(trimtab: Run, tmp_path: Path) -> None:
    web = k8s.replica_set("web", replicas=4)
    file = listed(
        tmp_path,
        k8s.node("n1"),
        k8s.node("n2", ready=False),
        web,
        k8s.pod("waits", owner=web),
        k8s.pod("orphan", node="gone", owner=web),
        k8s.pod("late", node="n2", owner=web),
        k8s.pod("done", phase="Succeeded", owner=web),
    )
    outcome = trimtab("plan", "--no-advice", file, *NOW)
    out = outcome.out
    assert "1 pending pod fits on existing nodes." in out
    assert "waiting for a node" not in out, "scale-up has said it"
    alone = trimtab("plan", "--no-advice", file, *NOW, "--decision", "scale-down").out
    assert "1 pod is waiting for a node (default/waits)" in alone
    assert "1 pod is bound to a node that is not in the input (default/orphan on gone)" in outcome.err
    assert "1 node is not ready (n2), with 1 pod." in out


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal_but_a_command_that_is_to_be_copied(
    trimtab: Run, priced: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for more in ((), ("--verbose",)):
        wide = [line.strip() for line in lines(trimtab("plan", priced, *NOW, *more).out) if len(line) > columns]
        assert all(line.startswith(("kubectl ", "set ")) for line in wide), wide


def test_every_module_of_blocks_is_of_a_decision_that_the_planner_takes() -> None:
    assert set(BLOCKS) <= {decision.field for decision in TABLE}


def test_a_table_says_nothing_that_json_lacks(trimtab: Run, priced: Path) -> None:
    answer = json.loads(trimtab("plan", "--no-advice", priced, *NOW, "-o", "json").out)
    assert [(one["node"], one["pricePerHour"]) for one in answer["nodes"] if one["wave"]] == [
        ("cheap-1", 0.5),
        ("dear-1", 2.0),
    ]
