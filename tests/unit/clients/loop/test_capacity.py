"""ProvisioningRequests in a round: one order for all growth; conditions are told once, of what the cloud accepted.
Target sizes are lowered by nodes that are still to come for gangs and requests which cannot be whole.
"""

from collections.abc import Sequence

from tests.builders.loop import Setup
from trimtab.clients.loop.capacity import ToldRequests, all_splits, target_reductions
from trimtab.clients.loop.events import event_document
from trimtab.clients.loop.growth_events import RequestEvents
from trimtab.clients.loop.rounds import RoundResult, deletion_order
from trimtab.v1 import actuator_pb2, plan_pb2

Outcome = plan_pb2.CapacityRequestOutcome


def split(group: str, before: int, after: int) -> plan_pb2.ScaleUpSplit:
    return plan_pb2.ScaleUpSplit(node_group=group, current_size=before, new_size=after, max_size=9)


def answer(name: str, outcome: int, group: str = "", detail: str = "why") -> plan_pb2.CapacityRequestAnswer:
    places = [plan_pb2.CapacityRequestPlace(node_group=group, pod_count=1)] if group else []
    return plan_pb2.CapacityRequestAnswer(
        namespace="ml", name=name, uid=f"uid-{name}", outcome=outcome, detail=detail, places=places  # type: ignore[arg-type]
    )  # fmt: skip


class ActuatorThatTakesAll:
    """Keeps what it was told; `left_count` : of each call."""

    def __init__(self, left_count: int = 0) -> None:
        self.told: list[list[str]] = []
        self.left_count = left_count

    def apply_capacity_status(
        self, answers: Sequence[plan_pb2.CapacityRequestAnswer]
    ) -> actuator_pb2.ApplyCapacityStatusResponse:
        self.told.append([one.name for one in answers])
        return actuator_pb2.ApplyCapacityStatusResponse(left_count=self.left_count)


def test_growth_for_requests_and_for_pods_is_one_order_a_group() -> None:
    plan = plan_pb2.PlanResponse()
    plan.capacity_requests.splits.extend([split("a", 1, 3), split("b", 0, 1)])
    plan.scale_up.splits.extend([split("a", 3, 4), split("c", 2, 3)])
    found = {one.node_group: (one.current_size, one.new_size) for one in all_splits(plan)}
    assert found == {"a": (1, 4), "b": (0, 1), "c": (2, 3)}


def test_an_answer_is_told_once_and_again_when_it_has_changed_meanwhile() -> None:
    told, actuator = ToldRequests(), ActuatorThatTakesAll()
    for outcome in (Outcome.NOT_FOUND, Outcome.NOT_FOUND, Outcome.FOUND, Outcome.BOOKED, Outcome.FOUND):
        decision = plan_pb2.CapacityRequestsDecision(requests=[answer("train", outcome)])
        told.forget_others(decision)
        due = told.due(decision, set())
        if due:
            told.tell(actuator, due)
    assert actuator.told == [["train"]] * 3


def test_what_could_not_be_written_at_once_is_told_again() -> None:
    told, actuator = ToldRequests(), ActuatorThatTakesAll(left_count=1)
    decision = plan_pb2.CapacityRequestsDecision(requests=[answer("train", Outcome.FOUND)])
    for _ in range(2):
        told.tell(actuator, told.due(decision, set()))
    assert actuator.told == [["train"]] * 2


def test_nothing_is_told_of_a_request_whose_nodes_the_cloud_has_refused() -> None:
    requests = [answer("refused", Outcome.PROVISIONED, "a"), answer("granted", Outcome.PROVISIONED, "b")]
    decision = plan_pb2.CapacityRequestsDecision(requests=requests)
    assert [one.name for one in ToldRequests().due(decision, {"a"})] == ["granted"]


def test_nodes_that_are_given_back_are_deleted_without_a_drain() -> None:
    plan = plan_pb2.PlanResponse()
    plan.capacity_requests.release.nodes.extend(["useless", "empty"])
    plan.scale_down.unneeded.add(node="empty")
    plan.scale_down.delete_empty.append("empty")
    order = deletion_order(plan_pb2.PlanRequest(request_id="r"), plan)
    assert [(one.node, one.drain) for one in order.nodes] == [("empty", False), ("useless", False)]


def test_the_nodes_of_a_gang_that_moves_whole_are_ordered_with_its_name() -> None:
    plan = plan_pb2.PlanResponse()
    for node, gang in (("a", "ns/g"), ("b", "ns/g"), ("c", "")):
        plan.scale_down.unneeded.add(node=node, gang=gang)
        plan.scale_down.drain.append(node)
    order = deletion_order(plan_pb2.PlanRequest(request_id="r"), plan)
    assert [(one.node, one.gang) for one in order.nodes] == [("a", "ns/g"), ("b", "ns/g"), ("c", "")]


def round_with(*told: plan_pb2.CapacityRequestAnswer) -> RoundResult:
    plan = plan_pb2.PlanResponse()
    plan.capacity_requests.requests.extend(told)
    return RoundResult(plan_pb2.PlanRequest(), plan, None, was_delta=False, told_requests=list(told))


def test_each_outcome_that_is_told_is_an_event_on_the_request() -> None:
    done = round_with(answer("a", Outcome.PROVISIONED), answer("b", Outcome.REVOKED, detail="gone"))
    events = list(RequestEvents().of(done))
    assert [(one.subject.kind, one.subject.name, one.type, one.reason, one.message) for one in events] == [
        ("ProvisioningRequest", "a", "Normal", "CapacityProvisioned", "why"),
        ("ProvisioningRequest", "b", "Warning", "CapacityRevoked", "gone"),
    ]
    about = event_document(events[0], "me", "1")["involvedObject"]
    assert about["apiVersion"] == "autoscaling.x-k8s.io/v1"


def test_an_outcome_that_is_told_again_unchanged_is_no_second_event() -> None:
    events = RequestEvents()
    outcomes = (Outcome.NOT_FOUND, Outcome.NOT_FOUND, Outcome.FOUND)
    assert [len(list(events.of(round_with(answer("a", one))))) for one in outcomes] == [1, 0, 1]


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
