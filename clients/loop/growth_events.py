"""Events of scale-up: on the growth of node groups, on the pods that it serves, on pods that no node group helps, and
on ProvisioningRequests: one for each outcome that was told.
Decides which results of a round become events, and their text. A pod gets one event for each reason.
Source: Cluster Autoscaler, observers/scale-up (reasons `TriggeredScaleUp`, `NotTriggerScaleUp`, `ScaledUpGroup`,
`FailedToScaleUpGroup`, and the object of each).
"""

from collections.abc import Iterator
from typing import Final

from trimtab.clients.loop.capacity import answer_content, request_key
from trimtab.clients.loop.events import NORMAL, WARNING, ClusterEvent, Subject
from trimtab.clients.loop.rounds import RoundResult
from trimtab.places import on_new_nodes, shortfalls
from trimtab.v1 import plan_pb2

TRIGGERED, NOT_TRIGGERED = "TriggeredScaleUp", "NotTriggerScaleUp"
SCALED_UP, SCALE_UP_FAILED = "ScaledUpGroup", "FailedToScaleUpGroup"
MOST_PODS: Final = 1000
"""Most pods that get events in one round: ten thousand waiting pods must not fill the event store."""


class GrowthEvents:
    """Turns the results of rounds into events. Only requested growth gives events."""

    def __init__(self, status_map: Subject) -> None:
        self._map = status_map
        # Pods that no group helps, and the sentence of their last event.
        self._helpless: dict[str, str] = {}

    def of(self, done: RoundResult) -> list[ClusterEvent]:
        """Return the events of a round."""
        return [*self._of_groups(done), *self._of_pods(done)]

    def _of_groups(self, done: RoundResult) -> Iterator[ClusterEvent]:
        for split in done.answer.scale_up.splits:
            if split.node_group in done.grown:
                text = (
                    f"Scale-up: setting group {split.node_group} size to {split.new_size} instead of "
                    f"{split.current_size} (max: {split.max_size})"
                )
                yield ClusterEvent(self._map, NORMAL, SCALED_UP, text)
            elif split.node_group in done.refused:
                text = f"Scale-up failed for group {split.node_group}: {done.refused[split.node_group]}"
                yield ClusterEvent(self._map, WARNING, SCALE_UP_FAILED, text)

    def _of_pods(self, done: RoundResult) -> Iterator[ClusterEvent]:
        decision, written_count = done.answer.scale_up, 0
        pods = on_new_nodes(decision)
        for split in decision.splits:
            for pod in pods[split.node_group] if split.node_group in done.grown else ():
                if written_count >= MOST_PODS:
                    return
                written_count += 1
                sizes = f"{{{split.node_group} {split.current_size}->{split.new_size} (max: {split.max_size})}}"
                yield ClusterEvent(_pod(pod), NORMAL, TRIGGERED, f"pod triggered scale-up: [{sizes}]")
        if not done.answer.HasField("scale_up"):
            return
        known, self._helpless = self._helpless, {pod: one.detail for pod, one in shortfalls(decision).items()}
        for pod, detail in list(self._helpless.items()):
            if known.get(pod) == detail:
                continue
            if written_count >= MOST_PODS:
                # Left for a later round.
                del self._helpless[pod]
                continue
            written_count += 1
            yield ClusterEvent(_pod(pod), NORMAL, NOT_TRIGGERED, f"pod didn't trigger scale-up: {detail}")


def _pod(key: str) -> Subject:
    """Return the subject of "namespace/name"."""
    namespace, _, name = key.partition("/")
    return Subject("Pod", name, namespace)


Outcome = plan_pb2.CapacityRequestOutcome
_GOOD: Final = frozenset((Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.CONSUMED))


class RequestEvents:
    """Turns the outcomes that were told into events on the requests. An outcome that could not be written is told again
    in the next round, and is no second event."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int, str]] = {}

    def of(self, done: RoundResult) -> Iterator[ClusterEvent]:
        """Yield an event on each request whose outcome was told and has changed."""
        if done.answer.HasField("capacity_requests"):
            present = {request_key(one) for one in done.answer.capacity_requests.requests}
            self._known = {key: content for key, content in self._known.items() if key in present}
        for one in done.told_requests:
            if self._known.get(request_key(one)) == answer_content(one):
                continue
            self._known[request_key(one)] = answer_content(one)
            kind = NORMAL if one.outcome in _GOOD else WARNING
            reason = "".join(word.capitalize() for word in Outcome.Code.Name(one.outcome).split("_"))
            subject = Subject("ProvisioningRequest", one.name, one.namespace, one.uid)
            yield ClusterEvent(subject, kind, f"Capacity{reason}", one.detail)
