"""ProvisioningRequests as one of the decisions of a plan: its entry in the table.

It is taken in a round of its own, before that of the others: these get the snapshot with the ordered nodes as requested
from the cloud, the booked room as taken, and without the pods that wait for it. What is booked follows from the
conditions of the objects and from the snapshot alone, so a lost state or another replica changes nothing; the state
only remembers which nodes were ordered, to give back those that turn out useless.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import chain, repeat
from typing import Final

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.planner.capacity_requests.loop import (
    HOLDS_ROOM,
    CapacityLoop,
    RequestRows,
    ServedRequest,
    add_useless,
    next_orders,
    useless_orders,
)
from trimtab.planner.capacity_requests.requests import (
    MOST_PODS,
    NO_LACK,
    AnsweredRequest,
    CapacityRequestSettings,
    Kind,
    Lack,
    answered_requests,
    resolve_capacity_requests,
    those_that_name,
    waiting_consumers,
)
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.new_nodes.progress import write_splits
from trimtab.planner.placement.group_templates import growth_with
from trimtab.planner.round.decision import NO_CHANGE, Decided, Decision, Summary
from trimtab.planner.round.round import BookedRoom, HeldRoom, Round, RoundInput, fixed_demand
from trimtab.planner.simulation.growth import SPARE, GrowthNeed
from trimtab.planner.simulation.virtual_rows import VirtualPod, kinds_of
from trimtab.planner.snapshot.columns import FLAG_GATED, NO_NODE, Bool, Int32, Int64, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import CapacityRequestsResult as Result

Outcome = pb.CapacityRequestOutcome
Coming = tuple[Int64, Int32]
"""Node group, and number among its coming nodes, of each node of the simulation."""
_LACKS_ROOM: Final = frozenset((Outcome.NOT_FOUND, Outcome.INVALID, Outcome.FAILED, Outcome.EXPIRED, Outcome.REVOKED))
SEEKS_ROOM: Final = HOLDS_ROOM | {Outcome.NOT_FOUND, Outcome.INVALID}
"""Outcomes of requests whose pods wait for their room."""
_BYTES_OF_REASON: Final = 150
_DETAILS: Final = {
    Outcome.FAILED: "it allows no second attempt",
    Outcome.EXPIRED: "no room was found within its time limit",
    Outcome.BOOKING_EXPIRED: "its booking has expired",
    Outcome.CONSUMED: "all its pods have started",
}


def nothing_asked(settings: CapacityRequestSettings) -> Decided:
    """Return the answer if there are no requests, or the decision is switched off."""
    if not settings.enabled:
        detail = "the decision on ProvisioningRequests is switched off"
        result = pb.CapacityRequestsDecision(result=Result.CAPACITY_REQUESTS_NOT_TRIED, detail=detail)
    else:
        result = pb.CapacityRequestsDecision(result=Result.CAPACITY_REQUESTS_NONE)
    return Decided(result, pb.CapacityRequestsState())


def summary_of(result: pb.CapacityRequestsDecision) -> Summary:
    """Return the figures of a result."""
    outcomes = Counter(request.outcome for request in result.requests)
    counts = {
        "requests": len(result.requests),
        "holding": sum(outcomes[code] for code in HOLDS_ROOM),
        "lacking": sum(outcomes[code] for code in _LACKS_ROOM),
        "ended": outcomes[Outcome.BOOKING_EXPIRED] + outcomes[Outcome.CONSUMED],
        "booked_pods": sum(request.booked_count for request in result.requests),
        "new_nodes": sum(split.new_size - split.current_size for split in result.splits),
        "given_back": len(result.release.nodes) + sum(result.release.upcoming.values()),
    }
    return Summary(Result.Code.Name(result.result), counts)


def answer_of(loop: CapacityLoop, served: Sequence[ServedRequest], state: pb.CapacityRequestsState | None) -> Decided:
    """Return the answer and the next state. O(requests + pods)."""
    result = pb.CapacityRequestsDecision()
    coming = loop.growth.numbered(len(loop.state.node_state), loop.group_of)
    for request in asking(served, every=1):
        reserve_memory(_BYTES_OF_REASON * (len(request.lack.reasons) + len(request.lack.failed)), "what requests lack")
        result.requests.append(_answer(loop, request, coming))
    write_splits(loop.progress, result)
    lacking = any(request.outcome in _LACKS_ROOM for request in served)
    result.result = Result.CAPACITY_REQUESTS_LACKING if lacking else Result.CAPACITY_REQUESTS_MET
    if not served:
        result.result = Result.CAPACITY_REQUESTS_NONE
    new = [
        pb.NodeOrder(
            name=request.request.request.key,
            uid=request.request.request.uid,
            node_group=loop.this.snapshot.groups[group].id,
            count=count,
            order_time=Timestamp(seconds=loop.this.now_ns // SECOND_NS),
        )
        for request in served
        for group, count in sorted(Counter(loop.group_of[at] for at in request.new_nodes).items())
    ]
    orders = next_orders(result.requests, state.orders if state is not None else (), new, loop.this.now_ns)
    waits = bool(useless_orders(result.requests, state))
    change = NO_CHANGE._replace(new=loop.group_of)
    return Decided(result, pb.CapacityRequestsState(orders=orders), is_concluded_later=waits, change=change)


def _answer(loop: CapacityLoop, served: ServedRequest, coming_at: Coming) -> pb.CapacityRequestAnswer:
    """Return the answer to one request."""
    request = served.request.request
    holds = served.outcome in HOLDS_ROOM
    answer = pb.CapacityRequestAnswer(
        namespace=request.namespace,
        name=request.name,
        uid=request.uid,
        outcome=served.outcome,  # type: ignore[arg-type]
        pod_count=served.request.pod_count,
        started_count=served.request.started,
        booked_count=len(served.pods) if holds else 0,
        needs_new_nodes=len(served.new_nodes) > 0,
    )
    if holds and served.outcome != Outcome.COMING:
        since = request.provisioned_s or loop.this.now_ns // SECOND_NS
        answer.booked_until.seconds = since + loop.settings.booking_s
    answer.places.extend(_places(loop, served, coming_at))
    answer.detail = _detail(served, answer)
    if served.lack.detail or served.lack.reasons:
        answer.shortfall.reasons.update(served.lack.reasons)  # type: ignore[arg-type]
        answer.shortfall.failed_predicates.update(served.lack.failed)  # type: ignore[arg-type]
        answer.shortfall.detail = served.lack.detail
    return answer


def _detail(served: ServedRequest, answer: pb.CapacityRequestAnswer) -> str:
    """Return one sentence."""
    if served.outcome == Outcome.INVALID:
        return served.request.request.problem
    if served.outcome in HOLDS_ROOM:
        existing = len({place.node for place in answer.places if place.node})
        coming = len({(place.node_group, place.number) for place in answer.places if not place.node})
        where = [f"{existing} that {'exists' if existing == 1 else 'exist'}"] if existing else []
        where += [f"{coming} that {'is' if coming == 1 else 'are'} coming"] if coming else []
        started = f"; {answer.started_count} of {answer.pod_count} have started" if answer.started_count else ""
        pods = "1 pod" if answer.booked_count == 1 else f"{answer.booked_count} pods"
        return f"room for {pods} on nodes: {', '.join(where) or 'none'}{started}"
    own = _DETAILS.get(served.outcome, "")  # type: ignore[call-overload]
    return "; ".join(text for text in (served.lack.detail, own) if text)


def _places(loop: CapacityLoop, served: ServedRequest, coming_at: Coming) -> Iterator[pb.CapacityRequestPlace]:
    """Yield where the pods of each set have room."""
    snapshot, node_count, first = loop.this.snapshot, loop.simulation.node_count, 0
    for number, missing in enumerate(served.request.missing if len(served.pods) else ()):
        pods = served.pods[first : first + missing]
        first += missing
        at, counts = np.unique(loop.state.pod_node[pods], return_counts=True)
        pairs = list(zip(at.tolist(), counts.tolist(), strict=True))
        for node, count in pairs:
            if node < node_count:
                yield pb.CapacityRequestPlace(node=snapshot.nodes.name[node], pod_count=count, pod_set=number)
        group_of, number_of = coming_at
        coming = sorted((int(group_of[at]), int(number_of[at]), count) for at, count in pairs if at >= node_count)
        for group, place, count in coming:
            yield pb.CapacityRequestPlace(
                node_group=snapshot.groups[group].id, number=place, pod_count=count, pod_set=number
            )


def input_of(loop: CapacityLoop, served: Sequence[ServedRequest], waiting: Bool) -> RoundInput:
    """Return what the other decisions get."""
    held = [request for request in served if request.outcome in HOLDS_ROOM and len(request.pods)]
    keys = {request.request.request.key for request in served if request.outcome in SEEKS_ROOM}
    requested = those_that_name(loop.this.snapshot, waiting, keys)
    snapshot = _with_orders(loop.this.snapshot, loop.group_of, loop.this.now_ns)
    return RoundInput(_with_gates(snapshot, requested), _booked(loop, held), requested)


def _booked(loop: CapacityLoop, held: Sequence[ServedRequest]) -> BookedRoom:
    pods: list[VirtualPod] = []
    names: list[str] = []
    counts: list[int] = []
    rows: list[Int32] = []
    first = loop.simulation.pod_count
    for held_request in held:
        key = f"ProvisioningRequest/{held_request.request.request.key}"
        virtual = [loop.simulation.virtual.pods[row - first] for row in held_request.pods.tolist()]
        pods += virtual
        names += [f"{key}-{number}" for number in range(len(virtual))]
        counts += [count for count in held_request.request.missing if count]
        rows.append(held_request.pods)
    at = loop.state.pod_node[np.concatenate(rows)].astype(np.int32) if rows else np.zeros(0, np.int32)
    group, number = loop.growth.numbered(len(loop.state.node_state), loop.group_of)
    return BookedRoom(
        pods=tuple(pods),
        names=tuple(names),
        counts=np.array(counts, np.int64),
        kinds=kinds_of(tuple({id(pod): pod for pod in pods}.values())),
        node=np.where(at < loop.simulation.node_count, at, NO_NODE).astype(np.int32),
        group=group[at].astype(np.int32),
        number=np.maximum(number[at], 0),
    )


def _with_orders(snapshot: Snapshot, group_of: Sequence[int], now_ns: int) -> Snapshot:
    """Return the snapshot with these nodes of groups as requested from the cloud."""
    if not group_of:
        return snapshot
    added = Counter(group_of)
    groups = tuple(
        group._replace(target_size=group.target_size + added[at], last_scale_up_ns=now_ns) if at in added else group
        for at, group in enumerate(snapshot.groups)
    )
    return snapshot._replace(groups=groups, version=_version(snapshot.version, f"orders {sorted(added.items())}"))


def _with_gates(snapshot: Snapshot, requested: Bool) -> Snapshot:
    """Return the snapshot with pods : bool[P] held back, as if they had a scheduling gate."""
    if not requested.any():
        return snapshot
    flags = np.where(requested, snapshot.pods.flags | FLAG_GATED, snapshot.pods.flags).astype(snapshot.pods.flags.dtype)
    version = _version(snapshot.version, f"held back {blake2b(requested.tobytes()).hexdigest()}")
    return snapshot._replace(pods=snapshot.pods._replace(flags=flags), version=version)


def _version(before: str, change: str) -> str:
    return blake2b(f"{before} {change}".encode(), digest_size=16).hexdigest()


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
    return pb.CapacityRequestsDecision(result=Result.CAPACITY_REQUESTS_ERROR, detail=detail)


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
