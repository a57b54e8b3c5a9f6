"""ProvisioningRequests for people: what each has, or what it lacks, in one sentence."""

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.markup import escape

from trimtab.clients.cli.amounts import some
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.answers.costs import money
from trimtab.v1 import plan_pb2, reason_pb2

_Result = reason_pb2.CapacityRequestsResult
Outcome = plan_pb2.CapacityRequestOutcome
RESULTS: Final = {
    _Result.UNSPECIFIED: "nothing was decided",
    _Result.CAPACITY_REQUESTS_NONE: "there are none of the classes that are answered",
    _Result.CAPACITY_REQUESTS_MET: "all have their room, or have ended",
    _Result.CAPACITY_REQUESTS_LACKING: "some lack room",
    _Result.CAPACITY_REQUESTS_NOT_TRIED: "they are not answered: capacityRequests.enabled is false",
    _Result.CAPACITY_REQUESTS_ERROR: "they could not be answered",
}
OUTCOMES: Final = {
    Outcome.FOUND: "has room",
    Outcome.PROVISIONED: "gets new nodes",
    Outcome.COMING: "waits for nodes that are coming",
    Outcome.BOOKED: "is booked",
    Outcome.NOT_FOUND: "has no room",
    Outcome.INVALID: "cannot be read",
    Outcome.FAILED: "fails",
    Outcome.EXPIRED: "fails: its time is over",
    Outcome.BOOKING_EXPIRED: "is no longer booked",
    Outcome.CONSUMED: "is consumed",
    Outcome.REVOKED: "has lost its room",
}
_SHOWN: Final = 10
"""Requests that are shown without --verbose."""


def render(answer: PlanAnswer) -> Iterator[RenderableType]:
    """Yield the parts of the answer, top to bottom."""
    decision = answer.response.capacity_requests
    if decision.result == _Result.CAPACITY_REQUESTS_NONE and not decision.HasField("release"):
        return
    yield f"[bold]ProvisioningRequests:[/bold] {RESULTS[decision.result]}"
    lacking = [one for one in decision.requests if one.outcome not in _HOLDING]
    others = [one for one in decision.requests if one.outcome in _HOLDING]
    shown = [*lacking, *others]
    for one in shown if answer.verbose else shown[:_SHOWN]:
        yield escape(f"  {sentence(one)}")
    if len(shown) > _SHOWN and not answer.verbose:
        yield f"  and {len(shown) - _SHOWN:,} more (--verbose)"
    for split in decision.splits:
        cost = f", {money(split.price_per_hour)} an hour" if split.price_per_hour else ""
        grows = f"{split.current_size} to {split.new_size} (max {split.max_size})"
        names = [f"{one.namespace}/{one.name}" for one in decision.requests if _grows(one, split.node_group)]
        yield escape(f"  {split.node_group} grows from {grows} for {some(names)}{cost}")
    if decision.release.nodes:
        yield escape(f"  given back at once: {some(list(decision.release.nodes))}")
    for group, count in sorted(decision.release.upcoming.items()):
        yield escape(f"  given back at once: {count} still to come of {group}")


_HOLDING: Final = frozenset((Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.BOOKED, Outcome.CONSUMED))


def _grows(one: plan_pb2.CapacityRequestAnswer, group: str) -> bool:
    """Return whether a node group grows for a request."""
    return one.needs_new_nodes and any(place.node_group == group for place in one.places)


def sentence(one: plan_pb2.CapacityRequestAnswer) -> str:
    """Return what is answered to a request."""
    return f"{one.namespace}/{one.name} {OUTCOMES[one.outcome]}: {one.detail}"
