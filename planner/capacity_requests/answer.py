"""The answer to ProvisioningRequests as a message, the next state, and what the round of the other decisions gets."""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.planner.capacity_requests.loop import HOLDS_ROOM, CapacityLoop, ServedRequest, next_orders, useless_orders
from trimtab.planner.capacity_requests.requests import CapacityRequestSettings, those_that_name
from trimtab.planner.model.execution import asking, reserve_memory
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.new_nodes.progress import write_splits
from trimtab.planner.round.decision import NO_CHANGE, Decided, Summary
from trimtab.planner.round.round import BookedRoom, RoundInput
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
