"""ProvisioningRequests for people: what each has, or what it lacks, in one sentence."""

from collections.abc import Iterator
from typing import Final

from trimtab.clients.cli.amounts import maximum, some
from trimtab.clients.cli.answers.answer import PlanAnswer
from trimtab.clients.cli.blocks import Block, Sentence, Style, Table, rows
from trimtab.reason_texts import clauses
from trimtab.v1 import plan_pb2, reason_pb2

_Result = reason_pb2.CapacityRequestsResult
Outcome = plan_pb2.CapacityRequestOutcome
RESULTS: Final = clauses(_Result)
OUTCOMES: Final = clauses(Outcome)
_SHOWN: Final = 10
"""Requests that are shown without --verbose."""


def blocks(answer: PlanAnswer) -> Iterator[Block]:
    """Yield which groups grow, what is given back, and the answers, those to requests that lack something first."""
    decision = answer.response.capacity_requests
    if decision.result == _Result.CAPACITY_REQUESTS_NONE and not decision.HasField("release"):
        return
    yield Sentence(f"ProvisioningRequests: {RESULTS[decision.result]}.", Style.HEADLINE)
    for split in decision.splits:
        cost = f", {answer.costs.amount(split.price_per_hour)} an hour" if split.price_per_hour else ""
        most = maximum(split.max_size)
        grows = f"{split.current_size} to {split.new_size}{f' (max {most})' if most else ''}"
        names = [f"{one.namespace}/{one.name}" for one in decision.requests if _grows(one, split.node_group)]
        yield Sentence(f"{split.node_group} grows from {grows} for {some(names)}{cost}.")
    if decision.release.nodes:
        yield Sentence(f"Given back at once: {some(list(decision.release.nodes))}.")
    for group, count in sorted(decision.release.upcoming.items()):
        yield Sentence(f"Given back at once: {count} still to come of {group}.")
    ordered = sorted(decision.requests, key=lambda one: one.outcome in _HOLDING)
    lines = rows([(f"{one.namespace}/{one.name}", f"{OUTCOMES[one.outcome]}: {one.detail}") for one in ordered])
    columns = ("request", "answer")
    yield Table("ProvisioningRequests", columns, lines, sentences=columns, most=_SHOWN)


_HOLDING: Final = frozenset((Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.BOOKED, Outcome.CONSUMED))


def _grows(answer: plan_pb2.CapacityRequestAnswer, group: str) -> bool:
    """Return whether a node group grows for a request."""
    return answer.needs_new_nodes and any(place.node_group == group for place in answer.places)
