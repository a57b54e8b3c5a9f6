"""Events on ProvisioningRequests: one for each outcome that was told, Normal if there is or will be room."""

from collections.abc import Iterator
from typing import Final

from trimtab.clients.loop.capacity import answer_content, request_key
from trimtab.clients.loop.events import NORMAL, WARNING, ClusterEvent, Subject
from trimtab.clients.loop.rounds import RoundResult
from trimtab.v1 import plan_pb2

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
