"""ProvisioningRequests in a round: one order for the new nodes of requests and of scale-up, the conditions that are
told, the nodes that are given back.

The order of the steps makes a crash harmless: nodes are ordered first, conditions written afterwards. A loop that ends
in between leaves nodes that are coming, and the next plan finds room there; it orders nothing again. Conditions are
told only of requests none of whose node groups the cloud has refused.
"""

from collections.abc import Sequence

from trimtab.clients.actuator_client import ActuatorCalls
from trimtab.v1 import plan_pb2

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
            one
            for one in answer.requests
            if one.outcome != Outcome.BOOKED
            and self._told.get(request_key(one)) != answer_content(one)
            and not any(place.node_group in refused for place in one.places)
        ]

    def tell(self, actuator: ActuatorCalls, due: Sequence[plan_pb2.CapacityRequestAnswer]) -> Sequence[str]:
        """Have the answers written; return the failures."""
        answer = actuator.apply_capacity_status(due)
        if not answer.left_count and not answer.failed_count:
            self._told.update({request_key(one): answer_content(one) for one in due})
        return answer.failures

    def forget_others(self, answer: plan_pb2.CapacityRequestsDecision) -> None:
        """Forget requests that are gone, or whose answer is another one now."""
        present = {request_key(one): answer_content(one) for one in answer.requests}
        self._told = {key: content for key, content in self._told.items() if present.get(key) == content}


def request_key(one: plan_pb2.CapacityRequestAnswer) -> str:
    """Return "namespace/name" of the request of an answer."""
    return f"{one.namespace}/{one.name}"


def answer_content(one: plan_pb2.CapacityRequestAnswer) -> tuple[str, int, str]:
    """Return what an answer says: it is told again only if this has changed."""
    return one.uid, one.outcome, one.detail
