"""Target sizes are lowered by nodes that are still to come for gangs and requests which cannot be whole."""

from tests.builders.loop import Setup
from trimtab.clients.loop.capacity import target_reductions
from trimtab.v1 import actuator_pb2, plan_pb2


def status(**sizes: tuple[int, int]) -> actuator_pb2.ActuatorStatus:
    """Return a status with groups: minimum and target size."""
    groups = [
        actuator_pb2.NodeGroupStatus(id=name, min_size=least, target_size=size) for name, (least, size) in sizes.items()
    ]
    return actuator_pb2.ActuatorStatus(node_groups=groups)


def useless(**counts: int) -> plan_pb2.PlanResponse:
    answer = plan_pb2.PlanResponse()
    answer.scale_up.gangs.add(group="ml/train", release={"upcoming": counts})
    return answer


def reductions(answer: plan_pb2.PlanResponse, **sizes: tuple[int, int]) -> list[tuple[str, int, int]]:
    found = target_reductions(answer, status(**sizes))
    return [(one.node_group, one.current_size, one.new_size) for one in found]


def test_each_group_is_lowered_by_the_useless_nodes_of_all_gangs() -> None:
    answer = useless(a=2, b=1)
    answer.scale_up.gangs.add(group="ml/other", release={"upcoming": {"a": 1}})
    assert reductions(answer, a=(0, 5), b=(0, 1), c=(0, 3)) == [("a", 5, 2), ("b", 1, 0)]


def test_nodes_that_neither_gangs_nor_requests_can_use_are_given_up_once() -> None:
    answer = useless(a=2)
    answer.capacity_requests.release.upcoming.update({"a": 1, "b": 1})
    assert reductions(answer, a=(0, 5), b=(0, 1)) == [("a", 5, 3), ("b", 1, 0)]


def test_no_group_is_lowered_below_its_minimum() -> None:
    assert reductions(useless(a=3, b=3), a=(3, 5), b=(2, 2)) == [("a", 5, 3)]


def test_a_group_that_grows_in_the_same_plan_is_not_lowered() -> None:
    answer = useless(a=2, b=2)
    answer.scale_up.splits.add(node_group="a", current_size=5, new_size=6)
    assert reductions(answer, a=(0, 5), b=(0, 2)) == [("b", 2, 0)]


def test_a_group_without_status_is_not_lowered() -> None:
    assert reductions(useless(a=2)) == []
    assert target_reductions(useless(a=2), None) == []


def test_a_round_lowers_targets_at_once_and_says_so() -> None:
    setup = Setup(useless(a=2, b=1))
    setup.actuator.status = status(a=(0, 5), b=(0, 2))
    setup.actuator.refused = {"b"}
    done = setup.run()
    assert setup.actuator.lowered == [("a", 5, 3), ("b", 2, 1)]
    assert [note for note in done.notes if "target size" in note] == [
        "lowered the target size of a from 5 to 3: the nodes still to come were for gangs that cannot be placed whole",
        "did not lower the target size of b from 2 to 1: REFUSED why",
    ]


def test_nothing_is_lowered_by_a_dry_run_by_a_follower_or_through_an_actuator_that_cannot() -> None:
    dry, follower, old = Setup(useless(a=2), dry_run=True), Setup(useless(a=2)), Setup(useless(a=2))
    follower.leads = False
    old.actuator.rpcs.remove("LowerTargets")
    for setup in (dry, follower, old):
        setup.actuator.status = status(a=(0, 5))
        setup.run()
        assert setup.actuator.lowered == []
