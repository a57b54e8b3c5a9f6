"""Messages of the commands: each once, in one wording, complete, aggregated where many items have one cause. Nothing in
the input controls the terminal, while our own colours do.
"""

import io
from pathlib import Path

import pytest
from rich.table import Table

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from trimtab.clients.cli.output import Format, SafeConsole, note
from trimtab.clients.cli.printing import print_document

NOW = ("--now", "2026-03-01T00:00:00Z")
QUICK = "scaleDown: {unneededTime: 0s}\n"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_an_explained_node_names_every_pod_that_must_not_be_evicted(trimtab: Run, tmp_path: Path) -> None:
    web, db = k8s.replica_set("web", replicas=3), k8s.replica_set("db", replicas=1)
    pods = [
        k8s.pod("web-0", cpu="100m", node="n1", owner=web),
        k8s.pod("keeps", cpu="100m", node="n1", owner=web, spec={"volumes": [{"name": "v", "emptyDir": {}}]}),
        k8s.pod("bare", cpu="100m", node="n1"),
        k8s.pod("db-0", cpu="100m", node="n1", owner=db, labels={"app": "db"}),
        k8s.pod("other", cpu="100m", node="n2"),
    ]
    budget = k8s.pdb("db", 0, labels={"app": "db"}, healthy=1, desired=1, expected=1)
    group = k8s.node_group("a", min_size=0, max_size=5, selector={"pool": "a"})
    nodes = [k8s.node(name, labels={"pool": "a"}) for name in ("n1", "n2")]
    cluster = listed(tmp_path, *nodes, web, db, *pods, budget, group)
    out = trimtab("explain", cluster, "node/n1", *NOW).out
    assert out.endswith(
        "It stays: a pod must not be evicted (BLOCKED_BY_POD).\n"
        "Its utilization is 10 %.\n"
        "3 pods of it must not be evicted:\n"
        "  Pod default/bare has no controller that is known to create it again (NOT_REPLICATED).\n"
        "  Pod default/db-0 has a PodDisruptionBudget that does not allow its eviction (NOT_ENOUGH_PDB).\n"
        "  Budget default/db: no eviction allowed (1 of 1 pods healthy, 1 required).\n"
        "  Pod default/keeps keeps data on the node (emptyDir or hostPath) (LOCAL_STORAGE_REQUESTED).\n"
        "\n"
        "Its other pods: 1 can be evicted.\n"
        "  default/web-0 can be evicted\n"
    ), out
    document = trimtab("explain", cluster, "node/n1", *NOW, "-o", "json").document()
    assert [(one["pod"], one["reason"]) for one in document["verdict"]["blockingPods"]] == [
        ("default/bare", "NOT_REPLICATED"),
        ("default/db-0", "NOT_ENOUGH_PDB"),
        ("default/keeps", "LOCAL_STORAGE_REQUESTED"),
    ]
    assert "Pod default/other has no controller" in trimtab("explain", cluster, "node/n2", *NOW).out


@pytest.mark.parametrize(
    ("cpu", "freed"),
    [
        pytest.param("3500m", "That frees 3.5 cores and 16.0 GiB of memory", id="not rounded"),
        pytest.param("1", "That frees 1 core and 16.0 GiB of memory", id="one core"),
    ],
)
def test_what_is_freed_is_not_rounded_to_whole_cores(trimtab: Run, tmp_path: Path, cpu: str, freed: str) -> None:
    assert freed in trimtab("plan", "--no-advice", listed(tmp_path, k8s.node("n1", cpu=cpu, memory="16Gi")), *NOW).out


def test_a_group_that_this_plan_fills_is_not_one_that_does_not_help(trimtab: Run, tmp_path: Path) -> None:
    web = k8s.replica_set("web", replicas=9)
    labels = {"pool": "a"}
    group = k8s.node_group("a", min_size=0, max_size=3, selector=labels, template=k8s.node("t", cpu="4", labels=labels))
    busy = k8s.pod("busy", cpu="4", node="n1", owner=web)
    waiting = [k8s.pod(f"web-{i}", cpu="3", owner=web) for i in range(5)]
    cluster = listed(tmp_path, k8s.node("n1", cpu="4", labels=labels), web, group, busy, *waiting)
    out = trimtab("plan", "--no-advice", cluster, *NOW).out
    assert "no node group has room left (1 of 1: filled by this plan up to the maximum size)" in out
    assert "no node group helps" not in out
    out = trimtab("explain", cluster, "pod/default/web-4", *NOW).out
    assert "No node group has room left for it:" in out
    assert "1 node group (a): this plan fills it up to its maximum size (MAX_SIZE_REACHED)" in out
    full = listed(
        tmp_path,
        k8s.node("n1", cpu="4", labels=labels),
        web,
        busy,
        *waiting,
        {**group, "spec": {**group["spec"], "maxSize": 1}},
    )
    assert "no node group helps (1 of 1: at the maximum size)" in trimtab("plan", "--no-advice", full, *NOW).out


def test_slack_says_why_there_is_more_room_than_requested(trimtab: Run, tmp_path: Path) -> None:
    """Two numbers that differ under one heading look like an error."""
    nodes = [k8s.node(f"n{i}", cpu="3", memory="12Gi", labels={"pool": "a"}) for i in range(5)]
    settings = tmp_path / "slack.yaml"
    settings.write_text("slack: {extraCapacityMinRate: 0.11}\n")
    out = trimtab(
        "plan", "--no-advice", listed(tmp_path, *nodes), "--settings", settings, "--decision", "slack", *NOW
    ).out
    assert "Requested: at least 1.65 cores, 6.6 GiB of memory.\n" in out
    assert "Kept free: 1.8 cores, 7.2 GiB of memory, as placeholders are whole.\n" in out


def test_pods_without_controller_are_one_line_not_one_each(trimtab: Run, tmp_path: Path) -> None:
    labels = {"pool": "a"}
    nodes = [k8s.node(f"n{i}", cpu="4", labels=labels) for i in range(12)]
    bare = [k8s.pod(f"bare-{i:02}", cpu="100m", node=f"n{i}") for i in range(12)]
    waiting = [k8s.pod(f"waits-{i:02}", cpu="40") for i in range(15)]
    group = k8s.node_group("a", min_size=0, max_size=12, selector=labels)
    cluster = listed(tmp_path, *nodes, *bare, *waiting, group)
    for more in ((), ("--verbose",)):
        out = trimtab("plan", "--no-advice", cluster, *NOW, *more).out
        assert "12 nodes, 12 pods without known controller (default/bare-00, default/bare-01, …)" in out
        assert (
            "15  15 pods without known controller (default/waits-00, default/waits-01, …)  no node group helps" in out
        )
        assert "and 9 more" not in out


def test_pods_without_controller_that_lack_the_same_share_their_rows(trimtab: Run, tmp_path: Path) -> None:
    waiting = [k8s.pod(f"waits-{i:03}", cpu="40" if i else "30") for i in range(100)]
    out = trimtab("explain", listed(tmp_path, k8s.node("n1", cpu="4"), *waiting), "fit").out
    assert [line for line in out.splitlines() if "fits" in line] == [
        "default/waits-000 fits none of 1 node",
        "default/waits-001 and 98 more fits none of 1 node",
    ]


def test_settings_of_a_group_that_does_not_exist_are_noted_once(trimtab: Run, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("nodeGroups: {workers: {utilizationThreshold: 0.1}}\n")
    group = k8s.node_group("worker", min_size=0, max_size=5, selector={"pool": "a"})
    cluster = listed(tmp_path, k8s.node("n1", labels={"pool": "a"}), group)
    done = trimtab("plan", "--no-advice", cluster, *NOW, "--settings", settings)
    assert "nodeGroups.workers: the input has no such node group; did you mean worker?" in done.err
    assert "workers" not in done.out


def test_yaml_repeats_equal_parts_instead_of_anchors(capsys: pytest.CaptureFixture[str]) -> None:
    part = {"cpu": 1}
    print_document({"a": part, "b": [part, part]}, Format.YAML)
    assert capsys.readouterr().out == "a:\n  cpu: 1\nb:\n- cpu: 1\n- cpu: 1\n"


def test_an_input_without_any_controller_is_noted_once(trimtab: Run, tmp_path: Path) -> None:
    """As `kubectl get nodes,pods` gives it."""
    web = k8s.replica_set("web", replicas=3)
    cluster = listed(tmp_path, k8s.node("n1"), k8s.node("n2"), k8s.pod("web-0", node="n1", owner=web))
    for command in (
        ("plan", cluster),
        ("explain", cluster, "node/n1"),
        ("plan", cluster, "-o", f"html={tmp_path / 'x.html'}"),
    ):
        done = trimtab(*command, *NOW)
        said = " ".join(f"{done.out} {done.err}".split())
        assert said.count("1 pod has a controller, but the snapshot lists no controllers") == 1, command
        assert "counts as not found, because the input has no ReplicaSet" not in said
    some = listed(tmp_path, k8s.node("n1"), k8s.stateful_set("db"), k8s.pod("web-0", node="n1", owner=web))
    assert "1 pod has a ReplicaSet as controller" in trimtab("plan", "--no-advice", some, *NOW).err


def test_a_name_in_a_table_cannot_control_the_terminal_but_colours_can() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, force_terminal=True, color_system="standard", width=80, highlight=False)
    table = Table("node")
    table.add_row("\x1b[2J\x9bevil")
    console.print("[red]\x1b]0;title[/red]")
    console.print(table)
    text = stream.getvalue()
    assert "\x1b[31m\\x1b]0;title\x1b[0m" in text
    assert "\\x1b[2J\\x9bevil" in text
    assert "\x1b[2J" not in text


def test_a_name_in_a_note_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    note("node \x1b[2J")
    assert capsys.readouterr().err == "note: node \\x1b[2J\n"
