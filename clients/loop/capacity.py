"""ProvisioningRequests in a round: one order for the new nodes of requests and of scale-up, the conditions that are
told, the nodes that are given back; target sizes that are lowered by nodes that have not registered and are of no use
to their gang or request. The cloud ends no instance that runs.

The order of the steps makes a crash harmless: nodes are ordered first, conditions written afterwards. A loop that ends
in between leaves nodes that are coming, and the next plan finds room there; it orders nothing again. Conditions are
told only of requests none of whose node groups the cloud has refused.
"""

from collections import Counter
from collections.abc import Sequence

from trimtab.clients.actuator_client import ActuatorCalls
from trimtab.v1 import actuator_pb2, plan_pb2

Outcome = plan_pb2.CapacityRequestOutcome


def all_splits(answer: plan_pb2.PlanResponse) -> list[plan_pb2.ScaleUpSplit]:
    """Return the growth of each node group by requests and scale-up together. What scale-up adds comes on top of what
    requests get."""
    found: dict[str, plan_pb2.ScaleUpSplit] = {}
    for split in (*answer.capacity_requests.splits, *answer.scale_up.splits):
        known = found.get(split.node_group)
        if known is None:
            found[split.node_group] = plan_pb2.ScaleUpSplit()
            found[split.node_group].CopyFrom(split)
            continue
        known.new_size = split.new_size
        known.price_per_hour += split.price_per_hour
    return [found[group] for group in sorted(found)]


class ToldRequests:
    """The answers that were told last, so that an unchanged one is not told again."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, int, str]] = {}

    def due(self, answer: plan_pb2.CapacityRequestsDecision, refused: set[str]) -> list[plan_pb2.CapacityRequestAnswer]:
        """Return the answers to tell. refused : node groups that did not grow."""
        return [
            request
            for request in answer.requests
            if request.outcome != Outcome.BOOKED
            and self._told.get(request_key(request)) != answer_content(request)
            and not any(place.node_group in refused for place in request.places)
        ]

    def tell(self, actuator: ActuatorCalls, due: Sequence[plan_pb2.CapacityRequestAnswer]) -> Sequence[str]:
        """Have the answers written; return the failures."""
        answer = actuator.apply_capacity_status(due)
        if not answer.left_count and not answer.failed_count:
            self._told.update({request_key(one): answer_content(one) for one in due})
        return answer.failures

    def forget_others(self, answer: plan_pb2.CapacityRequestsDecision) -> None:
        """Forget requests that are gone, or whose answer is another one now."""
        present = {request_key(request): answer_content(request) for request in answer.requests}
        self._told = {key: content for key, content in self._told.items() if present.get(key) == content}


def request_key(answer: plan_pb2.CapacityRequestAnswer) -> str:
    """Return "namespace/name" of the request of an answer."""
    return f"{answer.namespace}/{answer.name}"


def answer_content(answer: plan_pb2.CapacityRequestAnswer) -> tuple[str, int, str]:
    """Return what an answer says: it is told again only if this has changed."""
    return answer.uid, answer.outcome, answer.detail


def useless_upcoming(answer: plan_pb2.PlanResponse) -> Counter[str]:
    """Return by node group how many nodes are still to come for gangs that have no use for them."""
    useless: Counter[str] = Counter()
    for gang in answer.scale_up.gangs:
        useless.update(gang.release.upcoming)
    return useless


def target_reductions(
    answer: plan_pb2.PlanResponse, status: actuator_pb2.ActuatorStatus | None
) -> list[actuator_pb2.TargetReduction]:
    """Return the reductions, by group: none below the minimum, none of a group that grows in the same plan."""
    # Both may mean the same nodes: the larger number counts; what is left follows in the next round.
    useless = useless_upcoming(answer) | Counter(answer.capacity_requests.release.upcoming)
    grows = {split.node_group for split in all_splits(answer)}
    return [
        actuator_pb2.TargetReduction(
            node_group=group.id,
            current_size=group.target_size,
            new_size=max(group.target_size - useless[group.id], group.min_size),
        )
        for group in (status.node_groups if status is not None else ())
        if useless[group.id] > 0 and group.id not in grows and group.target_size > group.min_size
    ]
