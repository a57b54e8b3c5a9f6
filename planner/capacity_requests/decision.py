"""ProvisioningRequests as one of the decisions of a plan: its entry in the table.

It is taken in a round of its own, before that of the others: these get the snapshot with the ordered nodes as requested
from the cloud, the booked room as taken, and without the pods that wait for it. What is booked follows from the
conditions of the objects and from the snapshot alone, so a lost state or another replica changes nothing; the state
only remembers which nodes were ordered, to give back those that turn out useless.
"""

from itertools import chain, repeat
from typing import Final

import numpy as np

from trimtab.planner.capacity_requests.answer import answer_of, input_of, nothing_asked, summary_of
from trimtab.planner.capacity_requests.loop import CapacityLoop, RequestRows, ServedRequest, add_useless
from trimtab.planner.capacity_requests.requests import (
    MOST_PODS,
    NO_LACK,
    AnsweredRequest,
    CapacityRequestSettings,
    Kind,
    Lack,
    answered_requests,
    resolve_capacity_requests,
    waiting_consumers,
)
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.round.decision import Decided, Decision
from trimtab.planner.round.round import HeldRoom, Round, fixed_demand
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.simulation.virtual_rows import VirtualPod, kinds_of
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import CapacityRequestsResult

Outcome = pb.CapacityRequestOutcome
_TOO_MANY: Final = Lack(f"a plan seeks room for {MOST_PODS} pods at most, and requests before this one take them")
_BYTES_OF_POD: Final = 150
"""Memory of a pod for which room is sought, in the simulation and among those that hold room."""
_BYTES_OF_SET: Final = 2000


def decide(this: Round, settings: CapacityRequestSettings, state: pb.CapacityRequestsState | None) -> Decided:
    """Take the decision. Raises MoveLogFullError."""
    answered = answered_requests(this.snapshot, settings, this.now_ns // SECOND_NS)
    if not answered and not (state is not None and state.orders):
        return nothing_asked(settings)
    seeking = [request for request in answered if request.needs_room]
    sets = [(request.request, pods) for request in seeking for pods in request.request.pod_sets]
    kinds = [VirtualPod(of.namespace, pods.spec, pods.labels, of.created_s) for of, pods in asking(sets)]
    counts = [count for request in seeking for count in request.missing]
    reserve_memory(_BYTES_OF_POD * sum(counts) + _BYTES_OF_SET * len(sets), "pods of ProvisioningRequests")
    pods = tuple(chain.from_iterable(repeat(pod, count) for pod, count in zip(kinds, counts, strict=True)))
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))])
    names = [""] * len(pods)
    this.hold_room(HeldRoom(names, bounds, fixed_demand(np.diff(bounds))), pods, kinds_of(tuple(dict.fromkeys(kinds))))
    first = this.simulation.pod_count + len(this.evictions)
    waiting = waiting_consumers(this.snapshot, answered)
    last = first + np.cumsum([sum(request.missing) for request in seeking], dtype=np.int64)
    pods_of = np.split(np.arange(first, first + len(pods), dtype=np.int32), last[:-1] - first)
    loop = CapacityLoop(this, settings, list(map(RequestRows, seeking, pods_of)), waiting)
    served = _in_order(answered, loop.run())
    round_input = input_of(loop, served, waiting)
    return answer_of(loop, served, state)._replace(input=round_input)


def _in_order(answered: tuple[AnsweredRequest, ...], served: list[ServedRequest]) -> list[ServedRequest]:
    """Return all requests by namespace and name, those included for which no room was sought."""
    nobody = np.zeros(0, np.int32)
    rest = [
        ServedRequest(
            request, request.outcome, nobody, range(0), _TOO_MANY if request.outcome == Outcome.NOT_FOUND else NO_LACK
        )
        for request in answered
        if not request.needs_room
    ]
    return sorted(
        [*served, *rest], key=lambda request: (request.request.request.namespace, request.request.request.name)
    )


def growth_need(snapshot: Snapshot, settings: CapacityRequestSettings, now_ns: int) -> GrowthNeed | None:
    """Return the requirements; None if no request asks for nodes."""
    answered = answered_requests(snapshot, settings, now_ns // SECOND_NS)
    if not answered or not snapshot.groups:
        return None
    scale_up, leaving = settings.scale_up, being_deleted(snapshot, now_ns)
    may_add = [max(group.max_size - group.target_size, 0) for group in snapshot.groups]
    whole = sum(node_count for node_count, group in zip(may_add, snapshot.groups, strict=True) if group.zero_or_max)
    wanted = sum(
        sum(request.missing) for request in answered if request.needs_room and request.kind == Kind.ATOMIC_SCALE_UP
    )
    node_count = min(wanted + whole, sum(may_add), scale_up.max_new_nodes)
    return growth_with(snapshot, scale_up, leaving, now_ns, lambda virtual_pod_count: node_count + SPARE)  # noqa: ARG005


def warm_up(settings: pb.PlanSettings) -> None:
    """Choose settings with which requests are answered: the defaults."""
    settings.capacity_requests.enabled = True


def failed(detail: str) -> pb.CapacityRequestsDecision:
    """Return the result if the decision fails."""
    return pb.CapacityRequestsDecision(result=CapacityRequestsResult.CAPACITY_REQUESTS_ERROR, detail=detail)


CAPACITY_REQUESTS: Final = Decision(
    pb.Decision.CAPACITY_REQUESTS,
    resolve_capacity_requests,
    decide,
    summary_of,
    warm_up,
    failed,
    growth_need,
    comes_before=True,
    conclude=add_useless,
)
