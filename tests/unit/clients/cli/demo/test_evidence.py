"""The demo's evidence notices everything that can go wrong. The Cluster Autoscaler's recorded answers are shown only
for the input that they were recorded for.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.demo import ready, shot
from trimtab.clients.cli.demo.command import Chapter, generated_chapter, recorded_chapter
from trimtab.clients.cli.demo.evidence import HARD_TAINT, ClusterPicture, Witness, complaints, moved
from trimtab.clients.cli.demo.verdict import recorded_answers


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
        "status": {"expectedPods": 2},
    }


BEFORE = shot(k8s.node("n1"), k8s.node("n2"), ready("a", "n1"), ready("b", "n2"), budget(minAvailable=1))


def violations(before: ClusterPicture, samples: list[ClusterPicture]) -> list[str]:
    witness = Witness(before)
    for sample in samples:
        witness.look(sample)
    assert witness.looks == len(samples)
    return witness.broken()


def test_a_clean_removal_raises_no_complaint() -> None:
    after = shot(k8s.node("n2"), ready("b", "n2"), ready("c", "n2"), budget(minAvailable=1))
    assert complaints(BEFORE, after, ["n1"]) == []
    assert violations(BEFORE, [after]) == []
    assert moved(BEFORE, after) == 1


@pytest.mark.parametrize(
    ("after", "complaint"),
    [
        pytest.param([k8s.node("n1"), k8s.node("n2"), ready("a", "n1"), ready("b", "n2")], "still there", id="stays"),
        pytest.param([ready("b", "n3"), k8s.node("n3"), ready("c", "n3")], "n2 is gone", id="wrong node"),
        pytest.param([k8s.node("n2"), ready("b", "n2")], "1 pods instead of 2", id="pod lost"),
        pytest.param(
            [k8s.node("n2"), ready("b", "n2"), ready("c", "n1")], "no longer exists", id="pod on a removed node"
        ),
        pytest.param([k8s.node("n2"), ready("b", "n2"), ready("c", "")], "no longer has a node", id="pod waits"),
        pytest.param(
            [k8s.node("n2", taints=[f"{HARD_TAINT}=1:NoSchedule"]), ready("b", "n2"), ready("c", "n2")],
            "still has",
            id="taint left",
        ),
    ],
)
def test_each_problem_is_reported(after: list[dict[str, Any]], complaint: str) -> None:
    found = complaints(BEFORE, shot(*after), ["n1"])
    assert [line for line in found if complaint in line], found


def test_pods_of_daemon_sets_go_with_their_node() -> None:
    owner = [{"kind": "DaemonSet", "name": "agent", "uid": "ds", "controller": True}]
    before = shot(k8s.node("n1"), k8s.node("n2"), ready("a", "n1", owners=owner), ready("b", "n2", owners=owner))
    after = shot(k8s.node("n2"), ready("b", "n2", owners=owner))
    assert complaints(before, after, ["n1"]) == []


@pytest.mark.parametrize(
    ("spec", "healthy", "broken"),
    [
        pytest.param({"minAvailable": 2}, 1, True, id="number of pods that must stay"),
        pytest.param({"minAvailable": "50%"}, 1, False, id="half may go"),
        pytest.param({"minAvailable": "51%"}, 1, True, id="percentages are rounded up"),
        pytest.param({"maxUnavailable": 1}, 1, False, id="one may be missing"),
        pytest.param({"maxUnavailable": 0}, 1, True, id="none may be missing"),
        pytest.param({"maxUnavailable": "10%"}, 1, False, id="a tenth of two is one"),
    ],
)
def test_a_budget_is_broken_when_too_few_pods_are_healthy(spec: dict[str, Any], healthy: int, broken: bool) -> None:
    before = shot(ready("a", "n1"), ready("b", "n2"), budget(**spec))
    during = shot(*[ready(name, "n2") for name in ("a", "b")[:healthy]], budget(**spec))
    assert bool(violations(before, [before, during])) is broken


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(ready("b", "n2", deletionTimestamp="2026-01-01T00:00:00Z"), id="terminating"),
        pytest.param(ready("b", "n2") | {"status": {"phase": "Running", "conditions": []}}, id="not ready"),
    ],
)
def test_pods_that_go_or_are_not_ready_do_not_count_as_healthy(pod: dict[str, Any]) -> None:
    assert shot(ready("a", "n1"), pod, budget(minAvailable=2)).budgets["default/web"].healthy == 1


def test_a_budget_that_was_broken_before_is_not_held_against_the_drain() -> None:
    before = shot(ready("a", "n1"), budget(minAvailable=5))
    assert violations(before, [before]) == []


@pytest.fixture(params=[recorded_chapter, generated_chapter])
def chapter(request: pytest.FixtureRequest, tmp_path: Path) -> Chapter:
    built: Chapter = request.param(tmp_path)
    return built


def test_the_answers_belong_to_the_clusters_of_the_demo(chapter: Chapter) -> None:
    found = recorded_answers(chapter.files[0])
    assert found is not None, "record again: tests/parity/cluster_autoscaler_oracle/demo.py"
    assert 0 < found.first_count <= found.best_count
    assert found.runs == 100


def test_no_answer_is_shown_beside_another_input(chapter: Chapter) -> None:
    file = chapter.files[0]
    listed = json.loads(file.read_bytes())
    node = next(item for item in listed["items"] if item["kind"] == "Node")
    node["status"]["allocatable"]["cpu"] = "1"
    file.write_text(json.dumps(listed))
    assert recorded_answers(file) is None
