"""Content of a scale-up decision: which groups grow, for which pods, and why others stay pending."""

from datetime import UTC, datetime

import pytest

from tests.builders.kubernetes import (
    Json,
    daemon_set,
    labelled,
    node,
    node_group,
    pod,
    pods_of,
    replica_set,
    snapshot_of,
    spread,
    toleration,
)
from tests.builders.scale_up import NOW_S, plan, plan_message
from trimtab.v1 import plan_pb2
from trimtab.v1.reason_pb2 import NodeGroupReason


def group(name: str = "g", cpu: str = "4", most: int = 10, **more: object) -> Json:
    """Return a group without nodes whose new nodes have the given cores."""
    labels = more.pop("labels", {})
    template = node("t", cpu, zone=str(more.pop("zone", "")), labels=labels)  # type: ignore[arg-type]
    return node_group(name, 0, most, target=int(more.pop("target", 0)), template=template, nodes=[], **more)  # type: ignore


def test_a_group_grows_for_pods_without_room() -> None:
    found = plan(group(), [pod(f"p{i}", "2") for i in range(5)])
    assert found.growth == {"g": 3}
    assert found.result == "NEEDED"
    assert len(found.on_new["g"]) == 5


def test_the_pods_of_a_daemon_set_that_runs_nowhere_yet_take_their_room_on_new_nodes() -> None:
    static = node("static", taints=["static:NoSchedule"])
    gpu = group(labels={"pool": "gpu"})
    driver = daemon_set(
        "driver", template={"cpu": "2", "node_selector": {"pool": "gpu"}, "tolerations": [toleration()]}
    )
    pods = [pod(f"p{i}", "2") for i in range(4)]
    assert plan(static, gpu, pods).growth == {"g": 2}
    assert plan(static, gpu, driver, pods).growth == {"g": 4}
    assert plan(gpu, driver, pod("p", "3")).pending == {"default/p": {"g": "INSUFFICIENT_RESOURCES"}}


def test_free_room_is_used_first() -> None:
    found = plan(group(), node("n1"), [pod(f"p{i}", "2") for i in range(3)])
    assert found.growth == {"g": 1}
    assert found.on_existing == {"default/p0": "n1", "default/p1": "n1"}


def test_pods_whose_spread_needs_pods_on_the_new_nodes_first_are_said_to_come_after_them() -> None:
    even = spread(labelled(app="web"))
    web = [pod(f"p{i}", "2", labels={"app": "web"}, spread=[even]) for i in range(4)]
    full, room = node("a1", "2", zone="a"), node("b1", "8", zone="b")
    found = plan(group(zone="a"), full, room, pod("full", "2", node="a1"), web)
    assert found.growth == {"g": 1}
    assert set(found.on_existing.values()) == {"b1"}
    # The scheduler binds one of the two now: zone "a" has no pod yet.
    assert len(found.on_existing) == 2
    (later,) = found.decision.after_new_nodes
    assert later in found.on_existing


def test_a_pod_that_is_too_large_stays_pending() -> None:
    found = plan(group(), pod("p", "8"))
    assert found.pending == {"default/p": {"g": "INSUFFICIENT_RESOURCES"}}
    assert found.result == "NO_OPTIONS"


def zones(*sizes: int, most: int = 10, **more: object) -> list[Json]:
    """Return similar groups g0, g1, … of the given sizes, one per zone, with full nodes."""
    found: list[Json] = []
    for number, size in enumerate(sizes):
        names = [f"g{number}-{i}" for i in range(size)]
        zone = "abc"[number % 3]
        found += [node(name, "4", zone=zone) for name in names]
        found += [pod(f"full-{name}", "4", node=name) for name in names]
        template = node("t", "4", zone=zone)
        found.append(node_group(f"g{number}", 0, most, target=size, template=template, nodes=names, **more))  # type: ignore
    return found


EVEN = {"balanceSimilarNodeGroups": True}


@pytest.mark.parametrize(
    ("count", "growth"), [(1, {"g0": 1}), (4, {"g0": 3, "g1": 1}), (9, {"g0": 5, "g1": 3, "g2": 1})], ids=str
)
def test_similar_groups_become_as_equal_as_can_be(count: int, growth: dict[str, int]) -> None:
    found = plan(zones(1, 3, 6 if count < 9 else 5), [pod(f"p{i}", "4") for i in range(count)], settings=EVEN)
    assert found.growth == growth


def test_maxima_bound_how_even_groups_become() -> None:
    found = plan(zones(0, 0, 0, most=2), [pod(f"p{i}", "4") for i in range(5)], settings=EVEN)
    assert sorted(found.growth.values()) == [1, 2, 2]


def test_without_balancing_one_group_grows() -> None:
    found = plan(zones(1, 3, 6), [pod(f"p{i}", "4") for i in range(4)])
    assert list(found.growth.values()) == [4]


def test_pods_bound_to_a_zone_go_there_and_the_others_level_it_out() -> None:
    bound = [pod(f"bound-{i}", "4", node_selector={"topology.kubernetes.io/zone": "b"}) for i in range(3)]
    found = plan(zones(1, 1, 1), bound, [pod(f"p{i}", "4") for i in range(6)], settings=EVEN)
    assert found.growth == {"g0": 3, "g1": 3, "g2": 3}


@pytest.mark.parametrize("settings", [{}, EVEN], ids=["alone", "balanced"])
def test_pods_spread_over_zones_make_all_zones_grow(settings: Json) -> None:
    web = replica_set("web", 30)
    pods = pods_of(web, 30, cpu="1", spread=[spread(labelled(app="web"))])
    found = plan(zones(1, 1, 1), web, pods, settings=settings)
    assert found.pending == {}
    assert sum(found.growth.values()) <= 9
    assert set(found.growth) == {"g0", "g1", "g2"}


@pytest.mark.parametrize("settings", [{}, EVEN], ids=["alone", "balanced"])
def test_pods_that_may_go_anywhere_fill_what_spread_pods_leave_free(settings: Json) -> None:
    """Eight pods per node, 67, 67 and 66 per zone: five, five and six slots are free on the last nodes."""
    web, old = replica_set("web", 200), replica_set("old", 8)
    first = [node(f"{zone}-1", "4", zone=zone) for zone in "abc"]
    groups = [
        node_group(f"g{zone}", 0, 20, target=1, template=node("t", "4", zone=zone), nodes=[f"{zone}-1"])
        for zone in "abc"
    ]
    spread_pods = pods_of(web, 200, cpu="450m", spread=[spread(labelled(app="web"))])
    for number, one in enumerate(spread_pods[:24]):
        one["spec"]["nodeName"] = f"{'abc'[number // 8]}-1"
    drained = node("drained", "4", zone="a", taints=[f"ToBeDeletedByClusterAutoscaler={NOW_S - 10}:NoSchedule"])
    free = pods_of(old, 8, cpu="450m", node="drained")
    found = plan(groups, first, drained, web, old, spread_pods, free, settings=settings)
    assert found.pending == {}
    assert found.growth == {"ga": 8, "gb": 8, "gc": 8}


def test_a_pod_that_the_chosen_group_does_not_take_shares_new_nodes_of_a_similar_group() -> None:
    web = replica_set("web", 4)
    pods = pods_of(web, 4, cpu="1", spread=[spread(labelled(app="web"))])
    bound = pod("bound", "2", node_selector={"topology.kubernetes.io/zone": "b"})
    first = {"expanders": ["PRIORITY"], "priority": {"ranks": [{"rank": 1, "patterns": ["g0"]}]}}
    found = plan(zones(1, 1), web, pods, bound, settings=first)
    assert next(option.node_group for option in found.decision.options if option.choice == 0) == "g0"
    assert found.pending == {}
    assert found.growth == {"g0": 1, "g1": 1}


def test_what_a_maximum_keeps_from_one_group_goes_to_another() -> None:
    found = plan(group("a", most=2), group("b", "2"), [pod(f"p{i}", "4" if i < 2 else "2") for i in range(4)])
    assert found.growth == {"a": 2, "b": 2}
    assert found.pending == {}


def test_a_group_at_its_maximum_hands_over_to_those_that_it_is_balanced_with() -> None:
    found = plan(zones(0, 0, 0, most=2), [pod(f"p{i}", "4") for i in range(5)], settings=EVEN)
    assert {option.node_count for option in found.decision.options if option.choice == 0} == {5}


def test_where_a_maximum_binds_pods_that_no_other_group_takes_come_first() -> None:
    template = node("t", "4", taints=["only=me:NoSchedule"])
    tainted = node_group("b", 0, 10, target=0, template=template, nodes=[])
    large = [pod(f"large-{i}", "3", tolerations=[toleration(key="only", operator="Exists")]) for i in range(2)]
    found = plan(group("a", most=1), tainted, large, [pod("small", "2")], settings={"expanders": ["LEAST_NODES"]})
    assert found.on_new == {"a": ["default/small"], "b": ["default/large-0", "default/large-1"]}


def test_a_limit_on_a_pool_is_kept_and_named_as_reason() -> None:
    limits = {"planner": {"limits": [{"resource": "nodes", "maximum": 1, "nodes": {"matchLabels": {"pool": "x"}}}]}}
    found = plan(group("a", labels={"pool": "x"}), [pod(f"p{i}", "4") for i in range(2)], settings=limits)
    assert found.growth == {"a": 1}
    assert list(found.pending.values()) == [{"a": "RESOURCE_LIMIT_REACHED"}]


def test_a_group_that_grows_whole_gets_all_its_nodes() -> None:
    found = plan(group("a", most=3, zero_or_max=True), pod("p", "2"))
    assert found.growth == {"a": 3}
    assert [len(pods) for nodes in found.new_nodes.values() for pods in nodes] == [1, 0, 0]


def test_a_group_that_may_not_grow_whole_does_not_grow() -> None:
    found = plan(group("a", most=3, zero_or_max=True), pod("p", "2"), settings={"maxNewNodes": 2})
    assert found.growth == {}
    assert found.pending == {"default/p": {"a": "MAX_NEW_NODES_REACHED"}}


@pytest.mark.parametrize(("status", "reason"), [("Unhealthy", "UNHEALTHY"), ("BackedOff", "BACKED_OFF")])
def test_groups_that_are_not_well_are_left_out(status: str, reason: str) -> None:
    message = snapshot_of(group("a"), pod("p", "2"))
    message.node_groups[0].health = {"Unhealthy": 2, "BackedOff": 3}[status]
    found = plan_message(message)
    assert found.pending == {"default/p": {"a": reason}}
    assert dict(found.decision.excluded) != {}


def test_a_pod_waits_on_the_node_that_is_on_its_way() -> None:
    found = plan(group("a", target=1), pod("p", "2"))
    assert found.growth == {}
    assert dict(found.on_upcoming) == {"default/p": "a"}
    assert found.result == "NOT_NEEDED"


@pytest.mark.parametrize(("price", "expected"), [(None, None), (0.0, 0.0), (0.5, 1.0)])
def test_the_price_of_a_split_is_absent_if_that_of_its_group_is_not_known_and_a_zero_otherwise_a_zero(
    price: float | None, expected: float | None
) -> None:
    (split,) = plan(group("a", price=price), [pod(f"p{i}", "4") for i in range(2)]).decision.splits
    assert (split.price_per_hour if split.HasField("price_per_hour") else None) == expected


def test_the_cheapest_group_is_taken_by_price_and_the_others_say_why_not() -> None:
    groups = [group("dear", price=2.0), group("cheap", price=1.0), group("unknown")]
    found = plan(groups, [pod(f"p{i}", "4") for i in range(2)], settings={"expanders": ["PRICE"]})
    assert found.growth == {"cheap": 2}
    assert found.decision.price_per_hour == 2.0
    reasons = {one.node_group: NodeGroupReason.Code.Name(one.reason) for one in found.decision.options}
    assert reasons == {"cheap": "UNSPECIFIED", "dear": "NOT_CHOSEN", "unknown": "PRICE_UNKNOWN"}
    assert found.decision.options[0].node_group == "cheap"


def test_a_group_that_every_expander_excludes_leaves_pods_pending() -> None:
    found = plan(group("a"), pod("p", "2"), settings={"expanders": ["PRICE"]})
    assert found.pending == {"default/p": {"a": "PRICE_UNKNOWN"}}


def test_daemon_set_pods_take_room_on_new_nodes() -> None:
    agent = daemon_set("agent")
    running = pod("agent-1", "1", node="n1", owner=agent, namespace="kube-system")
    found = plan(group("a"), node("n1", "1"), agent, running, [pod(f"p{i}", "2") for i in range(2)])
    assert found.growth == {"a": 2}


def test_pods_of_a_node_being_deleted_need_room_too() -> None:
    web = replica_set("web", 2)
    leaving = node("n1", taints=[f"ToBeDeletedByClusterAutoscaler={NOW_S}:NoSchedule"])
    moving = [pod(f"web-{i}", "2", node="n1", owner=web) for i in range(2)]
    found = plan(group("a"), leaving, web, moving)
    assert found.on_new == {"a": ["default/web-0", "default/web-1"]}


def test_without_node_groups_nothing_can_help() -> None:
    found = plan(node("n1"), pod("p", "8"))
    assert found.pending == {"default/p": {}}
    assert found.decision.unschedulable[0].detail == "there is no node group"


def test_switched_off_it_does_nothing() -> None:
    found = plan(group("a"), pod("p", "2"), settings={"enabled": False})
    assert (found.growth, found.result) == ({}, "NOT_TRIED")


def test_scale_down_keeps_a_node_that_got_a_waiting_pod() -> None:
    objects = [node("n1"), node("n2"), node_group("a", target=2, nodes=["n1", "n2"]), pod("p", "1")]
    found = plan(objects, decisions=(plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN))
    (place,) = found.on_existing.values()
    assert [entry.node for entry in found.answer.scale_down.unneeded] == [{"n1": "n2", "n2": "n1"}[place]]


def test_scale_down_continues_from_loop_to_loop_while_a_group_grows() -> None:
    web = replica_set("web", replicas=3)
    nodes = [node("n1"), node("n2"), node_group("a", target=2, nodes=["n1", "n2"])]
    pods = [pod("moves", "500m", node="n1", owner=web), pod("busy", "3", node="n2", owner=web), pod("large", "3900m")]
    decisions = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)
    first = plan(nodes, web, pods, decisions=decisions)
    later = plan(nodes, web, pods, decisions=decisions, state=first.answer.state)
    for found in (first, later):
        assert found.growth == {"a": 1}
        assert [entry.node for entry in found.answer.scale_down.unneeded] == ["n1"]


def test_a_pod_keeps_its_place_from_loop_to_loop() -> None:
    first = plan(group("a"), [pod(f"p{i}", "2") for i in range(3)])
    later = plan(
        group("a", target=2), node("other", "2"), [pod(f"p{i}", "2") for i in range(3)], state=first.answer.state
    )
    assert dict(later.on_upcoming) == {f"default/p{i}": "a" for i in range(3)}


def test_a_bounded_run_says_what_was_left_out() -> None:
    looks = iter(range(100))
    found = plan([group(f"g{i}", f"{i + 4}") for i in range(4)], pod("p", "2"), time_left=lambda: next(looks) < 1)
    assert sum(found.growth.values()) == 1
    assert found.decision.not_evaluated == 2


def test_the_cheapest_plan_needs_no_time() -> None:
    groups = [group("small", "4", price=1.0), group("large", "16", price=2.5)]
    pods = [pod(f"p{i}", "2") for i in range(9)]
    found = plan(groups, pods, settings={"expanders": ["CHEAPEST_PLAN"]}, time_left=lambda: False)
    assert not found.pending
    assert found.decision.price_per_hour <= 5.0


def test_the_cheapest_plan_takes_what_costs_least_together() -> None:
    groups = [group("small", "4", price=1.0), group("large", "16", price=2.5)]
    found = plan(groups, [pod(f"p{i}", "2") for i in range(9)], settings={"expanders": ["CHEAPEST_PLAN"]})
    # Eight pods for 2.5 on a large node and one for 1.0 on a small one: cheaper than three small nodes more.
    assert found.decision.price_per_hour == 3.5
    assert found.growth == {"small": 1, "large": 1}
    assert {one.node_group for one in found.decision.options if one.chosen} == {"small", "large"}


def test_the_cheapest_plan_spreads_over_zones() -> None:
    web = replica_set("web", 9)
    found = plan(
        zones(1, 1, 1, price=1.0), web, pods_of(web, 9, cpu="1", spread=[spread(labelled(app="web"))]),
        settings={"expanders": ["CHEAPEST_PLAN"]},
    )  # fmt: skip
    assert found.growth == {"g0": 1, "g1": 1, "g2": 1}


def ordered(name: str, minutes: int, **more: object) -> Json:
    """Return a group one of whose nodes was requested that long ago and has not come."""
    found = group(name, target=1, **more)
    asked = datetime.fromtimestamp(NOW_S - 60 * minutes, UTC).isoformat().replace("+00:00", "Z")
    return found | {"status": {"lastScaleUpTime": asked}}


@pytest.mark.parametrize(
    ("minutes", "settings", "growth"),
    [
        pytest.param(10, {}, {}, id="in time: the pod waits for the node"),
        pytest.param(20, {}, {"b": 1}, id="overdue: another group grows, even if it costs more"),
        pytest.param(20, {"planner": {"maxNodeProvisionTime": "1800s"}}, {}, id="more time is set"),
    ],
)
def test_a_group_whose_nodes_are_overdue_is_asked_last(minutes: int, settings: Json, growth: dict[str, int]) -> None:
    late, other = ordered("a", minutes, price=1.0), group("b", price=2.0)
    found = plan(late, other, pod("p", "2"), settings=settings)
    assert found.growth == growth


def test_a_group_whose_nodes_are_overdue_grows_where_no_other_helps() -> None:
    found = plan(ordered("a", 20, price=1.0), group("b", cpu="1", price=2.0), pod("p", "2"))
    assert found.growth == {"a": 1}
