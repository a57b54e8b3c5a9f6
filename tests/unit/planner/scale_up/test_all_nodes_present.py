"""Places that hold once all new nodes are there: topology spread counts a zone as soon as it has a node.

The certificate, which `plan` applies, verifies for each plan that the scheduler can place all pods both before and
after the new nodes register.
"""

from datetime import UTC, datetime

import pytest

from tests.builders.kubernetes import Json, labelled, node, node_group, pod, spread
from tests.builders.scale_up import NOW_S, Outcome, plan, search_budgets

ZONE = "topology.kubernetes.io/zone"
YOUNG = datetime.fromtimestamp(NOW_S - 10, UTC).isoformat()


def group(name: str, cpu: str, zone: str, **more: object) -> Json:
    """Return a group without nodes in a zone."""
    return node_group(name, 0, 10, target=0, template=node("t", cpu, zone=zone), nodes=[], **more)  # type: ignore[arg-type]


def web(count: int, cpu: str) -> list[Json]:
    """Return waiting pods that spread over zones."""
    even = spread(labelled(app="web"))
    return [pod(f"web-{at}", cpu, labels={"app": "web"}, spread=[even]) for at in range(count)]


def plan_that_opens_a_zone(cpu_of_web: str) -> Outcome:
    """Plan for four spread pods that fill the only node, others like them in size, and one that needs a new zone."""
    others = [pod(f"other-{at}", "5", node_selector={ZONE: "a"}) for at in range(3)]
    first_of_zone = pod("first", "4", node_selector={ZONE: "b"})
    return plan(
        node("a1", "20", zone="a"), group("ga", "20", "a"), group("gb", "4", "b"),
        web(4, cpu_of_web), others, first_of_zone, settings={"expanders": ["LEAST_NODES"]},
    )  # fmt: skip


def test_no_node_is_added_because_of_pods_that_a_new_zone_keeps_from_all_nodes() -> None:
    found = plan_that_opens_a_zone("5")
    assert found.growth == {"gb": 1}
    assert sorted(found.on_existing) == [
        "default/other-0",
        "default/other-1",
        "default/other-2",
        "default/web-0",
    ]
    reasons = {"ga": "TOPOLOGY_SPREAD_VIOLATED", "gb": "INSUFFICIENT_RESOURCES"}
    assert found.pending == {f"default/web-{at}": reasons for at in (1, 2, 3)}


def test_no_node_is_added_for_them_even_if_fewer_nodes_are_never_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    search_budgets(monkeypatch, repacking_checks=0)
    assert plan_that_opens_a_zone("5").growth == {"gb": 1}


def test_pods_that_a_new_zone_keeps_from_their_nodes_are_planned_on_others() -> None:
    found = plan(
        node("a1", "4", zone="a"), group("gb", "4", "b"), web(4, "1"), pod("b", "4", node_selector={ZONE: "b"})
    )
    assert found.pending == {}
    assert found.growth == {"gb": 2}
    assert len(found.on_existing) == 2
    assert not found.decision.after_new_nodes


def test_a_young_pod_that_a_new_zone_keeps_from_its_node_adds_no_node() -> None:
    young = [one | {"metadata": one["metadata"] | {"creationTimestamp": YOUNG}} for one in web(2, "1")]
    needs_zone = pod("b", "4", node_selector={ZONE: "b"})
    found = plan(
        node("a1", "4", zone="a"), group("gb", "4", "b"), young, needs_zone, settings={"newPodScaleUpDelay": "60s"}
    )
    assert found.growth == {"gb": 1}
    assert len(found.on_existing) == 1
    assert list(found.skipped.values()) == ["TOO_YOUNG"]


def chain(length: int) -> list[Json]:
    """Return groups and pods of which each new node keeps a pod from its place that only the next group takes."""
    objects: list[Json] = [node("home", "200", zone="z0"), pod("first", "1", node_selector={ZONE: "z1"})]
    for at in range(1, length + 1):
        objects.append(group(f"g{at:02}", str(at), f"z{at}"))
        zones = {"key": ZONE, "operator": "In", "values": ["z0", f"z{at}", f"z{at + 1}"]}
        terms = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
        }
        objects += [
            pod(
                f"p{at:02}-{number}", str(at + 1), labels={"app": str(at)},
                spread=[spread(labelled(app=str(at)))], affinity={"nodeAffinity": terms},
            )
            for number in range(2)
        ]  # fmt: skip
    return objects


def test_new_nodes_that_require_others_are_added_until_all_pods_have_places() -> None:
    found = plan(chain(6))
    assert found.growth == {f"g{at:02}": 1 for at in range(1, 7)}
    assert list(found.pending) == ["default/p06-1"]
    assert not found.decision.incomplete


def test_a_plan_that_reaches_its_bound_says_so_and_its_reasons_are_those_of_its_last_state() -> None:
    found = plan(chain(12))
    assert found.decision.incomplete
    assert "a later plan may place more pods" in found.decision.detail
    assert 1 < len(found.growth) < 12
    ((left, reasons),) = found.pending.items()
    # The next group in the chain helps, but was not tried; all others are truly refused.
    assert left == f"default/p{len(found.growth):02}-1"
    untried = [name for name, reason in reasons.items() if reason == "NOT_EVALUATED"]
    assert untried == [f"g{len(found.growth) + 1:02}"]
    assert any("a later plan may place more pods" in note for note in found.answer.summary.notes)
