"""Pending pods: their order, their nodes, and the handling of those without a place."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.drain_sets import some_rows
from tests.builders.examples import examples
from tests.builders.kubernetes import Json, daemon_set, labelled, node, pod, pod_affinity, pods_of, snapshot_of, spread
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.facts.readiness import is_ready
from trimtab.planner.model.settings import Readiness
from trimtab.planner.placement.waiting import (
    NodeOrder,
    PlacementOrder,
    Places,
    PodOrder,
    Waiting,
    close_leaving,
    in_order,
    place_waiting,
    places,
    pods_to_move,
)
from trimtab.planner.simulation.build import Simulation, build_simulation
from trimtab.planner.simulation.kernels import fits
from trimtab.planner.simulation.virtual_rows import NodeTemplate, VirtualNodes, VirtualPod, VirtualRows
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32
from trimtab.planner.snapshot.decode import canonicalize

NOW_NS = 1_800_000_000 * 10**9
NONE = np.zeros(0, np.int32)
NOTHING = VirtualRows()
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler:NoSchedule"


def simulation(*objects: Json | Sequence[Json], virtual: VirtualRows = NOTHING) -> Simulation:
    return build_simulation(canonicalize(snapshot_of(*objects)), virtual)


def usable(given: Simulation, leaving: Bool) -> Bool:
    return is_ready(given.snapshot, Readiness(), NOW_NS) & ~leaving


def room(given: Simulation, upcoming: Sequence[int] = ()) -> Places:
    return places(given, usable(given, being_deleted(given.snapshot, NOW_NS)), np.array(upcoming, np.int64))


def waits(given: Simulation) -> Int32:
    return np.flatnonzero(given.snapshot.pods.node == NO_NODE).astype(np.int32)


def placed(given: Simulation, hint: dict[str, str] | None = None, upcoming: Sequence[int] = ()) -> dict[str, str]:
    """Return the final node of every pending pod, by names; leaving nodes are closed first."""
    snap, leaving = given.snapshot, being_deleted(given.snapshot, NOW_NS)
    names = [*snap.nodes.name, *(name for nodes in given.virtual.nodes for name in nodes.names)]
    moving = pods_to_move(snap, leaving, -10)
    close_leaving(given, leaving, moving)
    hints = np.full(len(given.state.pod_node), -1, np.int32)
    for row in range(given.pod_count):
        if snap.pods.name.get(row) in (hint or {}):
            hints[row] = names.index((hint or {})[snap.pods.name.get(row)])
    virtual = np.arange(given.pod_count, len(given.state.pod_node), dtype=np.int32)
    found = place_waiting(given, room(given, upcoming), virtual, waits(given), hints, moving)
    assert found.left.tolist() == [p for p, n in zip(found.pods.tolist(), found.node.tolist(), strict=True) if n < 0]
    return {
        snap.pods.name.get(p) if p < given.pod_count else f"virtual-{p - given.pod_count}": names[n] if n >= 0 else ""
        for p, n in zip(found.pods.tolist(), found.node.tolist(), strict=True)
    }


def test_a_pod_goes_to_the_fullest_node_that_has_room() -> None:
    nodes = [node("a"), node("b"), node("c")]
    there = [pod("x", "2", node="b"), pod("y", "3", node="c")]
    assert placed(simulation(nodes, there, pod("p", "1500m"))) == {"p": "b"}
    assert placed(simulation(nodes, there, pod("p", "1"))) == {"p": "c"}
    assert placed(simulation(nodes, there, pod("p", "4"))) == {"p": "a"}
    assert placed(simulation(nodes, there, pod("p", "5"))) == {"p": ""}


def test_memory_fills_a_node_as_cpu_does() -> None:
    nodes = [node("a", memory="8Gi"), node("b", memory="8Gi")]
    assert placed(simulation(nodes, pod("x", "1", "1Gi", node="a"), pod("y", "1m", "4Gi", node="b"), pod("p"))) == {
        "p": "b"
    }


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"taints": [TO_BE_DELETED]}, id="being deleted"),
        pytest.param({"ready": False}, id="unready"),
        pytest.param({"unschedulable": True}, id="cordoned"),
        pytest.param({"taints": ["startup-taint.cluster-autoscaler.kubernetes.io/x:PreferNoSchedule"],
                      "created": "2027-01-15T07:59:00Z"}, id="starting"),
    ],
)  # fmt: skip
def test_no_pod_goes_to_a_node_that_cannot_take_one_for_long(state: Json) -> None:
    assert placed(simulation(node("a", **state), pod("p"))) == {"p": ""}
    assert placed(simulation(node("a", **state), pod("p")), {"p": "a"}) == {"p": ""}


def test_nodes_on_their_way_come_last_and_closed_ones_never() -> None:
    coming = VirtualNodes(
        NodeTemplate(allocatable=(("cpu", 4000), ("memory", 2**34), ("pods", 9))), ("up-1",), is_open=True
    )
    closed = coming._replace(names=("no-1",), is_open=False)
    given = [node("a"), pod("big", "3"), pod("small", "2", priority=-1)]
    rows = VirtualRows(nodes=(closed, coming))
    assert placed(simulation(given, virtual=rows), upcoming=[2]) == {"big": "a", "small": "up-1"}
    assert placed(simulation(given, virtual=rows)) == {"big": "a", "small": ""}


def test_a_pod_goes_back_to_where_it_was_before_others_look() -> None:
    nodes = [node("a", "2"), node("b", "2")]
    given = [*nodes, pod("first", "1", priority=5), pod("second", "2")]
    assert placed(simulation(given)) == {"first": "a", "second": "b"}
    assert placed(simulation(given), {"second": "a"}) == {"first": "b", "second": "a"}
    assert placed(simulation(given), {"second": "a", "first": "a"}) == {"first": "a", "second": "b"}


def test_what_the_last_loop_had_is_had_again() -> None:
    given = [node("a"), node("b"), *(pod(f"p{i}", "900m") for i in range(7)), pod("q", "900m", node="b")]
    first = placed(simulation(given))
    assert sorted(first.values()) == ["a"] * 4 + ["b"] * 3
    others = {name: at for name, at in first.items() if at == "a"} | dict.fromkeys(list(first)[:2], "b")
    assert placed(simulation(given), first) == first
    assert placed(simulation(given), others).items() >= others.items()
    # One more than fits.
    found = placed(simulation(given), dict.fromkeys(first, "a"))
    assert sorted(found.values()) == ["a"] * 4 + ["b"] * 3


def test_pods_of_nodes_being_deleted_need_a_place_and_a_pod_without_a_place_stops_no_other() -> None:
    owner = daemon_set("agent")
    given = simulation(
        node("go", "9", taints=[TO_BE_DELETED]),
        node("stay", "2"),
        pod("huge", "8", node="go"),
        pod("fine", "1", node="go"),
        pod("gone", "1", node="go", deletion="2026-01-01T00:00:00Z"),
        pod("done", "1", node="go", phase="Succeeded"),
        pod("spare", "1", node="go", priority=-11),
        pod("static", "1", node="go", annotations={"kubernetes.io/config.mirror": "x"}),
        *pods_of(owner, 1, node="go"),
        pod("new", "1"),
        pod("more", "1"),
    )
    assert placed(given) == {"huge": "", "fine": "stay", "more": "stay", "new": ""}


def test_virtual_pods_come_before_pending_ones() -> None:
    evicted = VirtualPod("default", canonicalize(snapshot_of(pod("p", "2"))).specs[0])
    given = simulation(node("a", "2"), pod("p", "2"), virtual=VirtualRows((evicted,)))
    assert placed(given) == {"virtual-0": "a", "p": ""}


def test_important_large_and_old_pods_come_first() -> None:
    given = simulation(
        node("a", "8", "8Gi"),
        pod("a-small", "1", "1Mi"),
        pod("b-much-memory", "1", "3Gi"),
        pod("c-large", "2", "1Mi", created="2026-01-01T00:00:02Z"),
        pod("d-large-and-old", "2", "1Mi", created="2026-01-01T00:00:01Z"),
        pod("e-important", "1m", "1Mi", priority=7),
    )
    found = in_order(given, waits(given)[::-1].copy())
    names = [given.snapshot.pods.name.get(row).partition("-")[2] for row in found.tolist()]
    assert names == ["important", "much-memory", "large-and-old", "large", "small"]


def test_pods_come_first_that_few_nodes_can_take() -> None:
    spread_out = {"labels": {"app": "w"}, "spread": [spread(labelled(app="w"))]}
    given = simulation(
        node("a", "8", zone="u", extra={"example.com/gpu": "1"}),
        node("b", "8", zone="v"),
        node("c", "8", zone="v"),
        pod("a-large", "4"),
        pod("b-gpu", "1", requests={"example.com/gpu": "1"}),
        pod("c-spread", "1", **spread_out),
        pod("d-port", "1", host_ports=[80]),
    )
    found = in_order(given, waits(given))
    names = [given.snapshot.pods.name.get(row).partition("-")[2] for row in found.tolist()]
    assert names == ["port", "spread", "gpu", "large"]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (PodOrder.BOUND_FIRST, ["important", "port", "large", "middle"]),
        (PodOrder.LARGEST_FIRST, ["important", "large", "middle", "port"]),
        (PodOrder.SMALLEST_FIRST, ["important", "port", "middle", "large"]),
        (PodOrder.LISTED, ["important", "middle", "large", "port"]),
        (PodOrder.LISTED_BACKWARDS, ["important", "port", "large", "middle"]),
    ],
    ids=lambda one: one.name if isinstance(one, PodOrder) else "",
)
def test_pods_of_one_priority_come_in_the_configured_order(order: PodOrder, names: list[str]) -> None:
    given = simulation(
        node("a", "8"),
        pod("a-middle", "2"),
        pod("b-large", "4"),
        pod("c-port", "1", host_ports=[80]),
        pod("d-important", "1", priority=7),
    )
    found = in_order(given, waits(given), order)
    assert [given.snapshot.pods.name.get(row).partition("-")[2] for row in found.tolist()] == names


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (NodeOrder.FULLEST_FIRST, ["b", "c", "a"]),
        (NodeOrder.EMPTIEST_FIRST, ["a", "c", "b"]),
        (NodeOrder.LISTED, ["a", "b", "c"]),
    ],
    ids=lambda one: one.name if isinstance(one, NodeOrder) else "",
)
def test_existing_nodes_are_tried_in_the_configured_order(order: NodeOrder, names: list[str]) -> None:
    objects = [node(name, "8") for name in "abc"]
    given = simulation(objects, pod("p", "4", node="b"), pod("q", "2", node="c"))
    way = PlacementOrder(PodOrder.LISTED, order)
    found = places(given, usable(given, being_deleted(given.snapshot, NOW_NS)), np.zeros(0, np.int64), way)
    assert [given.snapshot.nodes.name[row] for row in found.order.tolist()] == names
    assert found.pods is PodOrder.LISTED


def test_a_pod_that_waits_for_a_companion_gets_its_place_when_that_has_one() -> None:
    """The larger pod comes first, and must be on the smaller one's node."""
    near = pod("large", "2", affinity=pod_affinity(labelled(app="db")))
    given = [node("a"), node("b"), near, pod("small", "1", labels={"app": "db"})]
    assert placed(simulation(given)) == {"large": "a", "small": "a"}


def test_spread_pods_even_out_over_zones() -> None:
    even = {"labels": {"app": "w"}, "spread": [spread(labelled(app="w"))]}
    nodes = [node("a", zone="u"), node("b", zone="v"), node("c", "1", zone="w")]
    found = placed(simulation(nodes, [pod(f"p{i}", "500m", **even) for i in range(9)]))
    assert sorted(found.values()) == ["", "a", "a", "a", "b", "b", "b", "c", "c"]


def everything(seed: int, hint: dict[int, int]) -> tuple[Simulation, Waiting, Places]:
    """Place all pods that are on no node, after some have left theirs."""
    random, given = Random(seed), build_simulation(snapshot(*some_rows(seed)))
    count = len(given.state.node_state)
    leaving = np.array([random.random() < 0.2 for _ in range(count)])
    moving = pods_to_move(given.snapshot, leaving, -10)
    close_leaving(given, leaving, moving)
    where = places(given, usable(given, leaving), np.zeros(0, np.int64))
    hints = np.full(given.pod_count, -1, np.int32)
    hints[list(hint)] = list(hint.values())
    return given, place_waiting(given, where, NONE, waits(given), hints, moving), where


@given(st.integers(0, 2**48))
@examples(80)
def test_a_pod_without_a_place_has_none_and_the_next_loop_finds_the_same(seed: int) -> None:
    given, found, where = everything(seed, {})
    for one in found.left.tolist():
        assert not any(where.allowed[node] and fits(given.state, one, node) for node in where.order.tolist())
    hint = {pod: at for pod, at in zip(found.pods.tolist(), found.node.tolist(), strict=True) if at >= 0}
    assert set(hint.values()) <= set(where.order.tolist())
    assert len(set(found.pods.tolist())) == len(found.pods)
    random = Random(seed)
    wrong = {pod: random.randrange(len(where.allowed)) for pod in hint if random.random() < 0.5}
    other, again, _ = everything(seed, wrong)
    for one in again.left.tolist():
        assert not any(fits(other.state, one, node) for node in where.order.tolist())
    if given.state.local_class.all():
        assert (everything(seed, hint)[1].node == found.node).all()
