"""Nodes that a cloud delivered for a gang which cannot be whole are named, and go without waiting."""

from tests.builders.gangs import GangRow, gang_snapshot, members
from tests.builders.kubernetes import Json, node, node_group
from tests.builders.scale_up import NOW_S, plan_message
from trimtab.v1 import plan_pb2

UP, DOWN = plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN
GANG = [GangRow("g", 8)]
PODS = members("g", 8, "2")
T0 = "2027-01-15T08:00:00Z"
"""`NOW_S`."""


def group(name: str, target: int, most: int, nodes: list[str], backed_off: bool = False, **status: str) -> Json:
    times = dict(status) | ({"health": "BackedOff"} if backed_off else {})
    return node_group(name, 0, most, target=target, nodes=nodes, price=1.0, template=node("t", "4"), status=times)


def ordered() -> plan_pb2.PlanState:
    """Return the state after four nodes were requested for the gang."""
    found = plan_message(gang_snapshot(GANG, PODS, group("a", 0, 4, [])))
    assert found.growth == {"a": 4}
    (order,) = found.answer.state.scale_up.gang_orders
    assert (order.name, order.node_group, order.count, order.order_time.seconds) == ("default/g", "a", 4, NOW_S)
    return found.answer.state


def test_nodes_of_a_gang_that_cannot_be_whole_go_at_once() -> None:
    came = [node(name, "4", created=T0) for name in ("n1", "n2")]
    message = gang_snapshot(GANG, PODS, came, group("a", 2, 2, ["n1", "n2"], lastScaleUpTime=T0))
    found = plan_message(message, state=ordered(), now_s=NOW_S + 60, decisions=(UP, DOWN))
    (gang,) = found.decision.gangs
    assert (list(gang.release.nodes), dict(gang.release.upcoming)) == (["n1", "n2"], {})
    assert list(found.answer.scale_down.delete_empty) == ["n1", "n2"]


def test_nodes_that_have_not_registered_are_counted() -> None:
    message = gang_snapshot(GANG, PODS, node("n1", "4", created=T0), group("a", 2, 2, ["n1"], lastScaleUpTime=T0))
    found = plan_message(message, state=ordered(), now_s=NOW_S + 60)
    (gang,) = found.decision.gangs
    assert (list(gang.release.nodes), dict(gang.release.upcoming)) == (["n1"], {"a": 1})


def test_other_groups_are_tried_first() -> None:
    came = [node(name, "4", created=T0) for name in ("n1", "n2")]
    groups = [group("a", 2, 2, ["n1", "n2"], lastScaleUpTime=T0), group("b", 0, 9, [])]
    found = plan_message(gang_snapshot(GANG, PODS, came, groups), state=ordered(), now_s=NOW_S + 60)
    assert found.growth == {"b": 2}
    assert list(found.decision.gangs[0].release.nodes) == []
    assert [(one.node_group, one.count) for one in found.answer.state.scale_up.gang_orders] == [("a", 4), ("b", 2)]


def test_nodes_that_were_there_before_the_order_stay() -> None:
    old = node("n0", "1")
    message = gang_snapshot(GANG, PODS, old, group("a", 1, 1, ["n0"], lastScaleUpTime=T0))
    found = plan_message(message, state=ordered(), now_s=NOW_S + 60, decisions=(UP, DOWN))
    assert list(found.decision.gangs[0].release.nodes) == []
    assert list(found.answer.scale_down.delete_empty) == []


def test_an_order_is_forgotten_once_the_minimum_runs() -> None:
    running = members("g", 8, "2", node="n1", phase="Running")
    message = gang_snapshot(GANG, running, node("n1", "32"), group("a", 1, 4, ["n1"]))
    found = plan_message(message, state=ordered(), now_s=NOW_S + 60)
    assert list(found.answer.state.scale_up.gang_orders) == []
