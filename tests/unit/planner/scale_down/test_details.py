"""Details of reasons: enough for a user to know what to do next."""

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod, replica_set
from tests.builders.scale_down import Outcome, even, plan

WEB = replica_set("web", 9)
ON_COMPLETION = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "on-completion"}


def details(found: Outcome) -> dict[str, str]:
    return {entry.node: entry.detail for entry in found.nodes}


def nodes_of(*names: str, **group: object) -> list[Json]:
    return [WEB, *(node(name) for name in names), node_group("g", nodes=list(names), **group)]  # type: ignore[arg-type]


def test_a_node_that_waits_names_the_pods_it_waits_for() -> None:
    pods = [pod(f"batch-{i}", node="n1", owner=WEB, annotations=ON_COMPLETION) for i in range(3)]
    found = plan(nodes_of("n1", "n2"), pods, settings={"unneededTime": "0s"})
    assert found.not_now == {"n1": "BLOCKED_BY_ON_COMPLETION_POD", "n2": ""}
    assert details(found)["n1"] == "waits for pod default/batch-0 and 2 more to complete"


def test_a_node_that_waits_for_one_pod_gets_no_new_ones() -> None:
    objects = [*nodes_of("n1", "n2"), node("n3"), pod("batch", node="n1", owner=WEB, annotations=ON_COMPLETION)]
    found = plan(objects, pod("web", "1", node="n2", owner=WEB), settings={"unneededTime": "0s"})
    assert details(found)["n1"] == "waits for pod default/batch to complete"
    assert found.destinations == {"default/web": "n3"}


CASES: dict[str, tuple[list[Json], Json, dict[str, str]]] = {
    "room": (
        nodes_of("n1", "n2"), {"maxScaleDownParallelism": 1}, {"n2": "waits until fewer deletions are in progress"}
    ),
    "whole": (
        [*nodes_of("n1", "n2", zero_or_max=True), pod("big", "3", node="n1", owner=WEB)], {},
        {"n2": "its node group is removed as a whole or not at all"},
    ),
    "delayed": (
        [node("n1", annotations={"delay-deletion.cluster-autoscaler.kubernetes.io/x": "1"}),
         node_group("g", nodes=["n1"])], {},
        {"n1": "its deletion waits up to 2 minutes for the removal of a delay-deletion annotation"},
    ),
    "pennies": (
        [*nodes_of("n1", price=0.1), node("n2"), pod("p", node="n1", owner=WEB)], {"minSavingPerEviction": 1.0},
        {"n1": "its removal saves too little per pod that would have to move"},
    ),
    "balance": (
        [*nodes_of("n1", "n2"), node("b1"), node("b2"), node_group("b", nodes=["b1", "b2"]),
         *(pod(f"p{name}", "3", node=name, owner=WEB) for name in ("b1", "b2"))], even(1),
        {"n2": "similar node groups and their zones may differ by 1 at most"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_reason_that_leaves_questions_comes_with_an_answer(name: str) -> None:
    objects, settings, wanted = CASES[name]
    found = details(plan(objects, settings={"unneededTime": "0s"} | settings))
    assert {node: text for node, text in found.items() if text} == wanted
