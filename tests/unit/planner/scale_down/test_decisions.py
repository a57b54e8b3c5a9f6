"""Properties of a decision beyond upstream's cases: orders, memory, explanations, bounds, determinism."""

from collections.abc import Callable
from unittest.mock import patch

import pytest

from tests.builders.kubernetes import Json, labelled, node, node_group, pdb, pod, replica_set, snapshot_of, spread
from tests.builders.scale_down import NOW_S, Outcome, plan, plan_message
from trimtab.planner.scale_down.search import drain_sets
from trimtab.v1 import plan_pb2, snapshot_pb2
from trimtab.v1.opaque_state_pb2 import OpaqueState

WEB = replica_set("web", 9)
HOST_PATH = {"name": "data", "hostPath": {"path": "/data"}}


def cluster(
    pods: dict[str, list[str]], *, cpu: str = "4", outside: tuple[str, ...] = (), **group: object
) -> list[Json]:
    """Return nodes with pods of given cpu; one group, except for the nodes outside."""
    names = [name for name in pods if name not in outside]
    placed = [
        pod(f"web-{name}-{i}", amount, "1Mi", node=name, owner=WEB, labels={"app": "web"})
        for name, amounts in pods.items()
        for i, amount in enumerate(amounts)
    ]
    target = {"target": len(names)} | group
    return [WEB, *(node(name, cpu) for name in pods), node_group("g", nodes=names, **target), *placed]


def again(objects: list[Json], found: Outcome, after_s: int = 10, **settings: object) -> Outcome:
    return plan(objects, settings=settings, state=found.state, now_s=NOW_S + after_s)


ORDERS: dict[str, list[str]] = {
    "UTILIZATION": ["n3", "n1", "n2"],
    "EVICTION_COST": ["n1", "n2", "n3"],
    "NAME": ["n1", "n2", "n3"],
}


@pytest.mark.parametrize("order", ORDERS)
def test_candidates_are_tried_in_the_requested_order(order: str) -> None:
    objects = cluster({"n1": ["1200m"], "n2": ["1300m"], "n3": ["300m", "300m"], "n4": []}, outside=("n4",))
    found = plan(objects, settings={"candidateOrders": [order], "maxEvaluatedNodes": 1})
    assert found.unneeded == ORDERS[order][:1]


def test_the_most_expensive_node_goes_first_by_price() -> None:
    objects = [
        WEB, node("n1"), node("n2"), node("roomy"),
        node_group("cheap", nodes=["n1"], target=1, price=0.1), node_group("dear", nodes=["n2"], target=1, price=2.0),
        pod("web-1", "1", node="n1", owner=WEB), pod("web-2", "1", node="n2", owner=WEB),
    ]  # fmt: skip
    found = plan(objects, settings={"candidateOrders": ["PRICE"], "maxEvaluatedNodes": 1})
    assert found.unneeded == ["n2"]
    assert found.saving_per_hour == 2.0


def test_a_utilization_that_was_not_computed_is_absent_and_a_zero_is_a_zero() -> None:
    found = plan([node("n1"), node_group("free", nodes=["n1"], target=1), node("without", cpu="0")])
    assert [(one.HasField("utilization"), one.utilization) for one in found.going] == [(True, 0.0)]
    (without,) = found.staying
    assert not without.HasField("utilization")


def test_the_order_that_saves_most_is_taken() -> None:
    # One of the two can go; the other then has the pods.
    objects = [
        WEB, node("n1"), node("n2"),
        node_group("cheap", nodes=["n1"], target=1, price=0.1), node_group("dear", nodes=["n2"], target=1, price=2.0),
        pod("web-1", "1", node="n1", owner=WEB), pod("web-2", "1500m", node="n2", owner=WEB),
    ]  # fmt: skip
    alone = plan(objects, settings={"candidateOrders": ["UTILIZATION"]})
    assert (alone.unneeded, alone.counts["plans_tried"]) == (["n1"], 1)
    both = plan(objects, settings={"candidateOrders": ["UTILIZATION", "PRICE"]})
    assert (both.unneeded, both.counts["plans_tried"]) == (["n2"], 2)
    # Candidates as listed, and others, are tried too where no order is named.
    usual = plan(objects)
    assert usual.unneeded == ["n2"]
    assert usual.counts["plans_tried"] > 2


def test_in_the_order_of_names_empty_nodes_precede_the_others() -> None:
    objects = [
        WEB, node("n1", "4"), node("n2", "4"), node("n3", "4"), node_group("g", nodes=["n1", "n2", "n3"], target=3),
        pod("web-1", "1500m", node="n1", owner=WEB), pod("web-2", "3", node="n3", owner=WEB),
    ]  # fmt: skip
    found = plan(objects, settings={"candidateOrders": ["NAME"]})
    assert found.unneeded == ["n2"]


def test_a_plan_holds_until_another_is_better_by_the_margin() -> None:
    def priced(price: float) -> list[Json]:
        return [
            WEB, node("n1"), node("n2"),
            node_group("a", nodes=["n1"], target=1, price=1.0), node_group("b", nodes=["n2"], target=1, price=price),
            pod("web-1", "1", node="n1", owner=WEB), pod("web-2", "1", node="n2", owner=WEB),
        ]  # fmt: skip

    first = plan(priced(0.9))
    assert first.unneeded == ["n1"]
    assert again(priced(1.04), first).unneeded == ["n1"]
    assert again(priced(1.06), first).unneeded == ["n2"]


def test_the_largest_similar_group_gives_first_with_balance() -> None:
    nodes = [node(f"n{i}", zone="a") for i in range(5)] + [node("roomy", "64", "64Gi")]
    groups = [node_group("few", nodes=["n0"], target=1), node_group("many", nodes=["n1", "n2", "n3", "n4"], target=4)]
    settings = {"candidateOrders": ["UTILIZATION"], "maxEvaluatedNodes": 1}
    assert plan(nodes, groups, settings=settings).unneeded == ["n0"]
    assert plan(nodes, groups, settings=settings | {"balance": True}).unneeded == ["n1"]


def test_pods_are_not_moved_for_pennies() -> None:
    pods = [pod(f"web-{i}", "100m", node="n1", owner=WEB) for i in range(4)]
    group = node_group("g", nodes=["n1"], target=1, price=1.0)
    kept = plan(WEB, node("n1"), node("n2"), group, pods, settings={"minSavingPerEviction": 0.3})
    assert kept.reasons["n1"] == "NOT_UNNEEDED_OTHER_REASON"
    assert "saves too little" in next(e.detail for e in kept.staying if e.node == "n1")
    assert plan(WEB, node("n1"), node("n2"), group, pods, settings={"minSavingPerEviction": 0.2}).unneeded == ["n1"]


def test_a_failed_simulation_is_believed_for_a_while() -> None:
    objects = cluster({"n1": ["2"], "n2": ["3"]})
    first = plan(objects)
    assert first.reasons["n1"] == "NO_PLACE_TO_MOVE_PODS"
    bigger = [*objects, node("n3")]
    second = again(bigger, first, 299)
    assert second.reasons["n1"] == "RECENTLY_UNREMOVABLE"
    assert second.blocking["n1"] == ("default/web-n1-0", "NO_PLACE")
    assert "NO_PLACE_TO_MOVE_PODS 299 s ago" in {entry.detail for entry in second.staying}
    assert again(bigger, second, 300).unneeded == ["n1"]


def test_leaving_the_set_and_coming_back_restarts_the_timer() -> None:
    idle, busy = cluster({"n1": []}), cluster({"n1": ["3"]})
    first = plan(idle)
    second = again(busy, first, 60)
    assert second.unneeded == []
    third = again(idle, second, 120)
    assert third.going[0].since.seconds == NOW_S + 120


def test_a_clock_that_went_back_gives_no_time_in_the_future() -> None:
    first = plan(cluster({"n1": []}), now_s=NOW_S + 100)
    second = plan(cluster({"n1": []}), state=first.state, now_s=NOW_S)
    assert second.going[0].since.seconds == NOW_S
    assert second.notes == ("state has times up to 100.0 s after now, which count as now: the clocks differ",)
    assert plan(cluster({"n1": []}), state=second.state, now_s=NOW_S).notes == ()


def test_no_place_says_how_many_nodes_failed_which_predicate() -> None:
    objects = [*cluster({"n1": ["2"], "n2": ["3"], "n3": ["3"]}), node("n4", taints=["a=b:NoSchedule"])]
    found = plan(objects)
    (entry,) = [one for one in found.staying if one.node == "n1"]
    assert dict(entry.predicate_failure_counts) == {"INSUFFICIENT_RESOURCES": 2, "TAINT_NOT_TOLERATED": 1}
    assert found.blocking["n1"] == ("default/web-n1-0", "NO_PLACE")


def test_places_for_each_but_not_for_all_are_distinguished() -> None:
    found = plan(cluster({"n1": ["1", "1"], "n2": ["3"]}))
    (entry,) = [one for one in found.staying if one.node == "n1"]
    assert "not all at the same time" in entry.detail


def test_a_bounded_simulation_continues_where_it_stopped() -> None:
    objects = cluster({f"n{i}": [] for i in range(6)})
    seen: list[list[str]] = []
    state = None
    for loop in range(3):
        found = plan(objects, settings={"maxEvaluatedNodes": 2}, state=state, now_s=NOW_S + loop)
        seen.append(found.unneeded)
        state = found.state
    assert [len(one) for one in seen] == [2, 4, 6]


def test_no_node_starves_when_each_loop_has_time_for_one() -> None:
    # All nodes but one are completely full, so simulations fail.
    objects = cluster({f"n{i}": ["1900m"] for i in range(4)} | {"x": ["3900m"]}, outside=("x",))
    tried: set[str] = set()
    state = None
    for loop in range(8):
        with patch.object(drain_sets, "LEAST_EVALUATED", 1):
            found = plan(objects, state=state, now_s=NOW_S + loop, time_left=lambda: False)
        tried |= {name for name, reason in found.reasons.items() if reason != "NOT_EVALUATED"} | set(found.unneeded)
        state = found.state
    assert tried >= {f"n{i}" for i in range(4)}


def test_all_destinations_come_from_memory_in_a_second_loop() -> None:
    objects = cluster({f"n{i}": ["100m"] * (i % 5) for i in range(12)})
    first = plan(objects)
    second = again(objects, first)
    assert first.counts["searched_places"] > 0
    assert second.counts["searched_places"] == 0
    assert second.counts["remembered_places"] == len(first.destinations)
    assert second.destinations == first.destinations


def test_drains_that_use_up_a_budget_come_last() -> None:
    objects = cluster({"n1": ["100m"], "n2": ["100m"], "n3": ["200m"], "n4": []}, outside=("n4",))
    db = replica_set("db", 3)
    objects += [db, pdb("all", 1, labels={"app": "db"}), pod("db-0", "1m", node="n1", owner=db, labels={"app": "db"})]
    settings = {"unneededTime": "0s", "maxDrainParallelism": 1}
    found = plan(objects, settings=settings)
    assert found.unneeded == ["n1", "n2", "n3"]
    assert list(found.decision.drain) == ["n2"]


def vanish(message: plan_pb2.ScaleDownState) -> None:
    message.strings[1:] = [f"gone-{name}" for name in message.strings[1:]]


def truncate(message: plan_pb2.ScaleDownState) -> None:
    message.unneeded.time_ns = message.unneeded.time_ns[:-1]


def lengthen(message: plan_pb2.ScaleDownState) -> None:
    message.unneeded.node += b"\1\0\0\0"


def point_nowhere(message: plan_pb2.ScaleDownState) -> None:
    opaque = OpaqueState.FromString(message.opaque)
    opaque.hints.destination = b"\xff\xff\0\0" * (len(opaque.hints.destination) // 4)
    message.opaque = opaque.SerializeToString()


def divide_wrongly(message: plan_pb2.ScaleDownState) -> None:
    opaque = OpaqueState.FromString(message.opaque)
    opaque.hints.offsets = opaque.hints.offsets[:-4] + b"\x07\0\0\0"
    message.opaque = opaque.SerializeToString()


def other_layout(message: plan_pb2.ScaleDownState) -> None:
    opaque = OpaqueState.FromString(message.opaque)
    opaque.layout_version = 1
    message.opaque = opaque.SerializeToString()


@pytest.mark.parametrize(
    ("spoil", "since_s", "note"),
    [
        pytest.param(vanish, 10, "", id="all nodes vanished"),
        pytest.param(truncate, 10, "no multiple of 8", id="a truncated column"),
        pytest.param(lengthen, 10, "differ in length", id="a column too long"),
        pytest.param(point_nowhere, 0, "refers to a missing string", id="an index out of range"),
        pytest.param(divide_wrongly, 0, "hints.offsets", id="offsets that do not fit"),
        pytest.param(other_layout, 0, "its layout is 1, not", id="another layout"),
    ],
)
def test_a_state_that_cannot_be_used_counts_as_absent_and_timers_continue_where_only_its_opaque_part_cannot(
    spoil: Callable[[plan_pb2.ScaleDownState], None], since_s: int, note: str
) -> None:
    objects = cluster({f"n{i}": ["100m"] * (i % 3) for i in range(6)})
    first = plan(objects)
    spoil(first.state)
    second = again(objects, first)
    assert second.unneeded == first.unneeded
    assert {entry.since.seconds for entry in second.going} == {NOW_S + since_s}
    assert len(second.notes) == bool(note)
    assert all(note in one for one in second.notes)


def test_what_is_remembered_stays_small() -> None:
    pods = {f"ip-10-0-{i:03}-{i:03}.eu-central-1.compute.internal": ["10m"] * 30 for i in range(100)}
    message = snapshot_of(cluster(pods, cpu="32"))
    found = plan_message(message, {"utilizationThreshold": 1})
    moved = len(found.destinations)
    assert moved > 2000
    # 150,000 pods on 5,000 nodes may use 2 MiB: 8 bytes per pod, some 60 per node.
    assert found.state.ByteSize() < 9 * moved + 100 * len(pods)


def test_no_move_relies_on_a_pod_that_has_yet_to_leave_a_node_being_deleted() -> None:
    """With `late` on n2 the zones would differ by at most three; until it is there, they would differ by more."""
    apart: Json = {"labels": {"app": "x"}, "spread": [spread(labelled(app="x"), max_skew=3)]}
    gone = ["ToBeDeletedByClusterAutoscaler=1799999990:NoSchedule"]
    objects = [
        WEB, node("n0", zone="v", taints=gone), node("n1", zone="u"), node("n2", "1", zone="v"), node("n3", zone="u"),
        node_group("g", nodes=["n0", "n3"]), *(pod(f"here-{i}", node="n1", owner=WEB, **apart) for i in range(3)),
        pod("late", "900m", node="n0", owner=WEB, **apart), pod("mover", "900m", node="n3", owner=WEB, **apart),
    ]  # fmt: skip
    found = plan(objects)
    assert found.reasons["n3"] == "NO_PLACE_TO_MOVE_PODS"


def test_no_pod_is_moved_to_a_node_that_is_not_ready_though_no_taint_keeps_the_scheduler_off() -> None:
    web = replica_set("web", 2)
    pods = [pod("p1", "100m", node="n1", owner=web), pod("p2", "100m", node="n2", owner=web)]
    objects = [web, node("n1"), node("n2", ready=False), node_group("g", nodes=["n1", "n2"], target=2), *pods]
    found = plan(objects)
    assert found.unneeded == ["n2"]
    assert found.destinations == {"default/p2": "n1"}
    assert found.blocking["n1"] == ("default/p1", "NO_PLACE")
    # A remembered destination that is no longer ready is not used.
    healthy = plan([web, node("n1"), node("n2"), node_group("g", nodes=["n1"], target=1), *pods])
    assert healthy.destinations == {"default/p1": "n2"}
    sick = [web, node("n1"), node("n2", ready=False), node_group("g", nodes=["n1"], target=1), *pods]
    assert plan(sick, state=healthy.state, now_s=NOW_S + 10).unneeded == []


def test_no_room_on_a_node_that_is_not_ready_is_kept_for_a_pod_that_waits() -> None:
    web = replica_set("web", 2)
    objects = [
        web, node("n1", "1"), node("n2", "1", ready=False), node("n3", "1"), node_group("g", nodes=["n1"], target=1),
        pod("p1", "100m", node="n1", owner=web), pod("waits", "950m", owner=web),
    ]  # fmt: skip
    assert plan(objects).reasons["n1"] == "NO_PLACE_TO_MOVE_PODS"


def test_a_drain_that_leaves_a_budget_with_nothing_comes_last_with_deletions_counted() -> None:
    """The node being deleted uses one of the two disruptions that the budget allows."""
    web, own = replica_set("web", 9), {"labels": {"app": "web"}}
    objects = [
        web, *(node(name) for name in ("n1", "n2", "n3", "n4")), pdb("web", 2, **own),
        node_group("g", nodes=["n1", "n2", "n3"], target=3),
        pod("p1", "100m", node="n1", owner=web, **own), pod("p2", "100m", node="n2", owner=web),
        pod("p3", "100m", node="n3", owner=web, **own),
    ]  # fmt: skip
    status = snapshot_pb2.ActuationStatus()
    status.deletions.add(node="n3", node_group="g", drain=True)
    found = plan(objects, actuation=status, settings={"unneededTime": "0s", "maxDrainParallelism": 2})
    assert found.unneeded == ["n1", "n2"]
    assert list(found.decision.drain) == ["n2"]


def test_a_terminating_pod_with_the_longest_grace_period_is_not_overdue() -> None:
    going = pod("slow", node="n1", owner=WEB, deletion="2026-01-01T00:00:00Z", grace=2**63 - 1, volumes=[HOST_PATH])
    found = plan([WEB, node("n1"), node("n2"), node_group("g", nodes=["n1"], target=1), going])
    assert found.blocking["n1"] == ("default/slow", "LOCAL_STORAGE_REQUESTED")
