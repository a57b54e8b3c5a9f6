"""`trimtab plan` and `trimtab explain` on scale-up: which groups grow, at what cost and why, and what stays pending.
What a gang lacks is one sentence.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.cli import Run, listed
from tests.builders.gangs import GangRow, gang_snapshot, members
from tests.builders.kubernetes import node, node_group
from tests.builders.scale_up import plan_message
from trimtab.clients.cli.answers.scale_up import gang_of, gang_sentence, lacking_lines
from trimtab.clients.cluster_view import ClusterView

NOW = ("--now", "2026-03-01T00:00:00Z")
SPOT = [{"key": "spot", "operator": "Exists"}]


def group(name: str, cpu: str = "8", most: int = 6, **more: Any) -> dict[str, Any]:
    """Return a node group with one full node of the given size."""
    labels, taints = {"pool": name}, more.pop("taints", ())
    template = k8s.node("template", cpu=cpu, memory="32Gi", labels=labels, taints=taints)
    return k8s.node_group(name, 0, most, target=0, selector=labels, template=template, **more)


@pytest.fixture
def burst(tmp_path: Path) -> Path:
    """Write a full node and pending pods: some that two groups help, some that none helps, one that is held back."""
    web, big = k8s.replica_set("web", replicas=12), k8s.replica_set("big", replicas=2)
    return listed(
        tmp_path,
        k8s.node("old", cpu="8", labels={"pool": "small"}),
        group("small", price=0.5),
        group("large", "16", price=2.0),
        group("spot", price=0.1, taints=["spot:NoSchedule"]),
        group("full", most=0, price=0.1),
        k8s.pod("first", cpu="6", node="old", owner=web),
        web,
        big,
        k8s.pod("fits", cpu="2", owner=web),
        *(k8s.pod(f"web-{i}", cpu="4", owner=web) for i in range(6)),
        *(k8s.pod(f"big-{i}", cpu="20", owner=big) for i in range(2)),
        k8s.pod("gated", cpu="1", owner=web, spec={"schedulingGates": [{"name": "hold"}]}),
    )


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def by_price(tmp_path: Path) -> Path:
    path = tmp_path / "by_price.yaml"
    path.write_text("scaleUp: {expanders: [PRICE]}")
    return path


def text_of(out: str) -> str:
    return " ".join(out.split())


def test_a_plan_tells_what_grows_at_which_cost_who_chose_it_and_which_pods_nothing_helps(
    trimtab: Run, burst: Path
) -> None:
    out = trimtab("plan", "--no-advice", burst, *NOW).out
    first = out.splitlines()[0]
    assert first.startswith("1 node group grows by 3 nodes for 6 pods. That costs 1.50 an hour (0.50 → 2.00)")
    for told in (
        "1,095 a month",
        "1 pending pod fits on existing nodes.",
        "No node is added for 1 pod (default/gated): held back by scheduling gates.",
        "for ReplicaSet default/web (6)",
    ):
        assert told in out
    (row,) = [line.split() for line in out.splitlines() if line.startswith("small ")]
    assert row == ["small", "0", "→", "3", "6", "6", "1.50", "1,095", "cheapest", "plan"]
    (row,) = [line.split() for line in out.splitlines() if "ReplicaSet default/big" in line]
    assert row[0] == "2"
    assert "a new node is too small" in " ".join(row)


def test_options_that_lost_are_shown_with_verbose_with_what_decided(trimtab: Run, burst: Path, by_price: Path) -> None:
    arguments = ("plan", burst, *NOW, "--settings", by_price)
    brief, verbose = trimtab(*arguments).out, trimtab(*arguments, "--verbose").out
    assert "1 other option lost: --verbose shows why." in brief
    assert "worse by price" not in brief
    assert "chosen, price: rated" in verbose
    (row,) = [line for line in verbose.splitlines() if "worse by price: rated" in line]
    assert row.split()[:4] == ["large", "2", "6", "4.00"]
    assert "it is at its maximum size (MAX_SIZE_REACHED)" in verbose
    assert "INSUFFICIENT_RESOURCES" in verbose
    assert "INSUFFICIENT_RESOURCES" not in brief


def test_where_nothing_waits_the_plan_says_so_only_when_nothing_else_is_asked(trimtab: Run, tmp_path: Path) -> None:
    file = listed(tmp_path, k8s.node("n1"), k8s.node_group("a", nodes=["n1"]))
    assert "new node" not in trimtab("plan", "--no-advice", file, *NOW).out
    assert "No pod needs a new node." in trimtab("plan", "--no-advice", file, *NOW, "--decision", "scale-up").out


def test_where_no_group_can_grow_the_headline_says_for_how_many_pods(trimtab: Run, tmp_path: Path) -> None:
    file = listed(tmp_path, k8s.node("n1"), k8s.node_group("a", max_size=1, nodes=["n1"]), k8s.pod("p", cpu="20"))
    out = trimtab("plan", "--no-advice", file, *NOW).out
    assert out.startswith("No node group can grow for 1 pod.")
    assert "pod default/p" in out


def test_balanced_growth_says_with_whom_it_shares(trimtab: Run, tmp_path: Path) -> None:
    settings = tmp_path / "balance.yaml"
    settings.write_text("scaleUp: {balanceSimilarNodeGroups: true}")
    groups = [k8s.node_group(f"g-{zone}", 0, 9, target=0, nodes=[], template=k8s.node("t", zone=zone)) for zone in "ab"]
    file = listed(tmp_path, k8s.node("full", cpu="1"), *groups, *(k8s.pod(f"p{i}", cpu="3") for i in range(4)))
    out = trimtab("plan", "--no-advice", file, *NOW, "--settings", settings).out
    told = " ".join(out.split())
    assert "2 node groups grow by 4 nodes for 4 pods. No price is known; that costs about 0.74 an hour, 537 a" in told
    assert "month (assumed: 0.03 a core and 0.004 a GiB of memory an hour; --prices gives yours)." in told
    assert "0 → 2" in out
    assert "shares with a similar node group" in out


def test_the_cheapest_plan_is_named_as_what_chose(trimtab: Run, burst: Path, tmp_path: Path) -> None:
    settings = tmp_path / "cheapest.yaml"
    settings.write_text("scaleUp: {expanders: [CHEAPEST_PLAN]}")
    assert "cheapest plan" in trimtab("plan", "--no-advice", burst, *NOW, "--settings", settings).out


def test_groups_made_by_label_have_room_to_grow_and_no_maximum_that_is_shown(trimtab: Run, tmp_path: Path) -> None:
    labels = {"node.kubernetes.io/instance-type": "large"}
    file = listed(tmp_path, k8s.node("n1", labels=labels), *(k8s.pod(f"p{i}", cpu="3") for i in range(3)))
    out = trimtab("plan", "--no-advice", file, *NOW).out
    assert "1 node group grows by 2 nodes for 2 pods." in out
    assert "at most" not in out
    assert "grows for it, from 1 to 3 nodes: " in explained(trimtab, file, "p2")


def explained(trimtab: Run, file: Path, pod: str, *options: object) -> str:
    outcome = trimtab("explain", file, f"pod/default/{pod}", *NOW, *options)
    assert outcome.code == 0, outcome.err
    return text_of(outcome.out)


def test_a_pending_pod_shows_which_group_grows_for_it_and_why_each_other_does_not(
    trimtab: Run, burst: Path, by_price: Path
) -> None:
    out = explained(trimtab, burst, "web-0", "--settings", by_price)
    assert "Node group small grows for it, from 0 to 3 nodes (at most 6): price: rated" in out
    assert "It shares its new node with 1 pod. Such a node costs 0.50 an hour, 365 a month." in out
    assert "large would also help: worse by price: rated" in out
    assert "Other node groups would not help:" in out
    assert "(spot): no toleration for the taint spot:NoSchedule (TAINT_NOT_TOLERATED)" in out
    assert "(full): it is at its maximum size (MAX_SIZE_REACHED)" in out


def test_a_pod_that_nothing_helps_shows_the_reason_of_each_group_with_amounts(trimtab: Run, burst: Path) -> None:
    out = explained(trimtab, burst, "big-0")
    assert "No node group helps it:" in out
    assert "2 node groups (full, small): wants 20 cores, a new node has 8 cores (INSUFFICIENT_RESOURCES)" in out
    assert "1 node group (large): wants 20 cores, a new node has 16 cores" in out


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        pytest.param("fits", "with all pending pods placed, it fits old", id="room on a node that exists"),
        pytest.param("gated", "held back by scheduling gates (SCHEDULING_GATED)", id="not served"),
    ],
)
def test_a_pod_for_which_no_node_is_added_has_a_reason(trimtab: Run, burst: Path, pod: str, told: str) -> None:
    out = explained(trimtab, burst, pod)
    assert "No node is added for it" in out
    assert told in out


def test_pods_that_depend_on_those_on_new_nodes_are_reported(trimtab: Run, tmp_path: Path) -> None:
    even = k8s.spread(k8s.labelled(app="web"))
    file = listed(
        tmp_path,
        k8s.node_group("a", target=0, nodes=[], template=k8s.node("t", cpu="4", zone="a")),
        k8s.node("a1", cpu="2", zone="a"),
        k8s.node("b1", cpu="8", zone="b"),
        k8s.pod("full", cpu="2", node="a1"),
        *(k8s.pod(f"web-{i}", cpu="2", labels={"app": "web"}, spread=[even]) for i in range(4)),
    )
    plan = trimtab("plan", "--no-advice", file, *NOW, "-o", "json").document()["scaleUp"]
    (later,) = plan["afterNewNodes"]
    assert "Of these, 1 pod can be bound only after pods run on the new nodes" in text_of(
        trimtab("plan", "--no-advice", file, *NOW).out
    )
    (now,) = plan["onExisting"].keys() - {later}
    after = "It can be bound there only after pods run on the nodes added for others"
    assert after in explained(trimtab, file, later.removeprefix("default/"))
    assert after not in explained(trimtab, file, now.removeprefix("default/"))


def test_a_pod_without_node_groups_shows_that_there_are_none(trimtab: Run, tmp_path: Path) -> None:
    file = listed(tmp_path, k8s.node("n1", cpu="1"), k8s.pod("p", cpu="2"))
    out = explained(trimtab, file, "p", "--group-by", "none")
    assert "No node group helps it: the input has none." in out


def test_a_running_pod_shows_nothing_about_scale_up(trimtab: Run, burst: Path) -> None:
    assert "node group" not in explained(trimtab, burst, "first").lower()


def test_what_helps_a_pod_is_a_document_too(trimtab: Run, burst: Path) -> None:
    document = trimtab("explain", burst, "pod/default/web-0", *NOW, "-o", "json").document()
    assert [one["nodeGroup"] for one in document["scaleUp"]["splits"]] == ["small"]
    told = " ".join(one["lead"] + one["text"] for one in document["blocks"])
    assert "large would also help: " in told
    assert all(code in told for code in ("(TAINT_NOT_TOLERATED)", "(MAX_SIZE_REACHED)"))


def test_a_cluster_whose_groups_are_all_at_zero_has_a_plan_and_one_without_groups_is_refused(
    trimtab: Run, tmp_path: Path
) -> None:
    agent = k8s.daemon_set("agent", template={"cpu": "4"})
    pods = [k8s.pod(f"p{i}", cpu="4") for i in range(3)]
    at_zero = listed(tmp_path, group("small", price=0.5), agent, *pods)
    out = text_of(trimtab("plan", "--no-advice", at_zero, *NOW).out)
    assert "1 node group grows by 3 nodes for 3 pods" in out
    assert "small 0 → 3" in out
    nothing = trimtab("plan", "--no-advice", listed(tmp_path, agent, *pods), *NOW)
    assert nothing.code != 0
    assert "there is no Node and no NodeGroup in the input; export nodes too" in nothing.err
    assert "there is no Node in the input" in trimtab("explain", listed(tmp_path, group("small"), *pods), "fit").err


GROUP = node_group("a", 0, 3, target=0, template=node("t", "4"))


def test_a_sentence_says_what_each_gang_lacks() -> None:
    message = gang_snapshot([GangRow("big", 8), GangRow("ok", 2)], members("big", 8, "2"), members("ok", 2, "2"), GROUP)
    decision = plan_message(message).decision
    assert list(lacking_lines(decision, every=False)) == [
        "1 gang can start whole: 2 pods, 2 of them on new nodes.",
        "Gang default/big gets no places: 2 of 8 pods that it needs have no place: a would help and is at the maximum "
        "size (MAX_SIZE_REACHED).",
    ]


def test_a_pod_is_explained_with_its_gang() -> None:
    message = gang_snapshot([GangRow("ok", 2)], members("ok", 2, "2"), GROUP)
    view, decision = ClusterView(message), plan_message(message).decision
    pod = view.pod("default/ok-001")
    assert pod is not None
    gang = gang_of(view, pod, decision)
    assert gang is not None
    assert gang_sentence(gang) == "default/ok can start whole: 2 of at least 2 pods have places."
