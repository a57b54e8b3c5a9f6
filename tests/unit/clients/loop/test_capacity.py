"""ProvisioningRequests in a round: one order for all growth; conditions are told once, of what the cloud accepted."""

from collections.abc import Sequence

from trimtab.clients.loop.capacity import ToldRequests, all_splits
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
