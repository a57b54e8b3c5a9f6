"""Pods that have to be together on one node: the first one goes where the others have room, too."""

import pytest

from tests.builders.kubernetes import Json, labelled, node, node_group, pod, spread
from tests.builders.scale_up import plan, search_budgets

TOGETHER: Json = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": labelled(app="web"), "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
EXPANDERS = [["LEAST_WASTE"], ["LEAST_NODES", "PRICE"], ["CHEAPEST_PLAN"], ["MOST_PODS"]]


def group(cpu: str, most: int = 20, name: str = "g") -> Json:
    """Return a group without nodes."""
    return node_group(name, 0, most, target=0, template=node("t", cpu, zone="a"), nodes=[], price=float(cpu))


def web(count: int) -> list[Json]:
    """Return waiting pods that have to be on one node, without a pod that runs."""
    return [pod(f"web-{at}", "500m", labels={"app": "web"}, affinity=TOGETHER) for at in range(count)]


def large(count: int) -> list[Json]:
    """Return waiting pods that leave room for one of the others, and are packed before them."""
    near = spread(labelled(app="large"))
    return [pod(f"large-{at}", "3500m", labels={"app": "large"}, spread=[near]) for at in range(count)]


@pytest.fixture(autouse=True)
def _only_the_usual_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no other plan that could hide where the first pod of the usual one goes."""
    search_budgets(monkeypatch, variant_work=0)


@pytest.mark.parametrize("expanders", EXPANDERS, ids=str)
def test_the_first_pod_goes_to_a_new_node_with_room_for_all(expanders: list[str]) -> None:
    found = plan(group("4"), large(3), web(6), settings={"expanders": expanders})
    assert found.pending == {}
    (home,) = [set(pods) for nodes in found.new_nodes.values() for pods in nodes if "default/web-0" in pods]
    assert home == {f"default/web-{at}" for at in range(6)}


@pytest.mark.parametrize("expanders", EXPANDERS, ids=str)
def test_of_pods_for_which_no_node_is_large_enough_as_many_as_possible_are_together(expanders: list[str]) -> None:
    found = plan(group("4"), large(3), web(20), settings={"expanders": expanders})
    assert len(found.pending) == 12


@pytest.mark.parametrize("expanders", EXPANDERS, ids=str)
def test_a_nearly_full_node_does_not_get_the_first_pod_if_a_new_node_takes_more(expanders: list[str]) -> None:
    there = [node("n1", "4"), pod("fills", "3500m", node="n1")]
    found = plan(there, group("4"), web(6), settings={"expanders": expanders})
    assert not found.on_existing
    assert (found.growth, found.pending) == ({"g": 1}, {})


def test_the_existing_node_with_most_room_gets_them_if_it_has_room_for_all() -> None:
    there = [node("full", "4"), node("free", "4"), pod("fills", "3500m", node="full")]
    found = plan(there, group("4"), web(6))
    assert set(found.on_existing.values()) == {"free"}
    assert (found.growth, found.pending) == ({}, {})


@pytest.mark.parametrize("most", [0, 5])
def test_existing_room_is_used_if_no_new_node_may_be_added(most: int) -> None:
    there = [node("full", "4"), node("free", "4"), pod("a", "3500m", node="full"), pod("b", "2500m", node="free")]
    limits: Json = {"planner": {"limits": [{"resource": "nodes", "maximum": 2}]}}
    found = plan(there, group("4", most), web(6), settings=limits if most else {})
    assert dict.fromkeys(found.on_existing.values()) == {"free": None}
    assert len(found.on_existing) == len(found.pending) == 3
    assert not found.decision.after_new_nodes


def test_once_the_first_pod_runs_the_others_follow_it() -> None:
    there = [node("n1", "2"), pod("running", "500m", node="n1", labels={"app": "web"}, affinity=TOGETHER)]
    found = plan(there, group("4"), web(6))
    assert set(found.on_existing.values()) == {"n1"}
    assert len(found.pending) == 3
    assert found.growth == {}
