"""The loop over all ProvisioningRequests: room is held for those that are booked, then real pods that wait are placed,
then each other request gets all of its room or none. The moves stay in the round's simulation.

Nodes to give back at once: ordered for a request that can no longer be completed, without pods and needed by none.

A cloud may deliver fewer nodes than were ordered. Then others are tried; if none can be had, those that came are of no
use, and those that are still to come will be: they would cost until scale-down finds them unneeded. Only after all
decisions of a plan is it known which nodes none of them uses.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.capacity_requests.requests import (
    NO_LACK,
    AnsweredRequest,
    CapacityRequestSettings,
    Kind,
    Lack,
    lack_of,
)
from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.model.execution import asking
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.settings.scale_up import BEST
from trimtab.planner.model.tuning import MANY_SETS
from trimtab.planner.new_nodes.cheapest_nodes import place_all
from trimtab.planner.new_nodes.demand_sets import EVERYWHERE, NOBODY, DemandServer, DemandSet, Domain, PlacedSet
from trimtab.planner.new_nodes.progress import Checkpoint, PlanInProgress
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.placement.packing import packer
from trimtab.planner.placement.waiting import places, unplaced
from trimtab.planner.round.decision import room_to_grow
from trimtab.planner.round.round import Round
from trimtab.planner.round.waiting import UnusedNodes, place_waiting_pods, pods_that_wait
from trimtab.planner.simulation.log import check_log
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32
from trimtab.v1 import plan_pb2 as pb

Outcome = pb.CapacityRequestOutcome


class RequestRows(NamedTuple):
    """A request, and int32 the virtual pods of its sets that have not started."""

    request: AnsweredRequest
    pods: Int32


class ServedRequest(NamedTuple):
    """What became of a request. outcome : `CapacityRequestOutcome.Code`; pods : int32 its virtual pods, those with room
    on nodes; new_nodes : positions of the nodes that were opened for it; lack : what it lacks."""

    request: AnsweredRequest
    outcome: int
    pods: Int32
    new_nodes: range
    lack: Lack = NO_LACK


_BOOKED, _LARGEST_FIRST, _SMALLEST_FIRST, _ON_NEW_NODES = range(4)
"""Ways of placing a request: a booked one also on nodes that are not ready, as a node that is away for a moment does
not end a booking; others by size, or all on new nodes, where pods that run may keep them from existing ones."""


class CapacityLoop:
    """Serves the requests of one plan, one after the other."""

    def __init__(
        self, this: Round, settings: CapacityRequestSettings, rows: Sequence[RequestRows], waiting: Bool
    ) -> None:
        self.this, self.settings, self._waiting = this, settings, waiting
        self._rows = {row.request.request.key: row for row in rows}
        self.simulation, self.growth = this.simulation, this.growth_of(pb.Decision.CAPACITY_REQUESTS)
        templates, limits = room_to_grow(this, settings.scale_up)
        where = places(self.simulation, this.ready & ~this.leaving, self.growth.upcoming)
        labels, groups = labels_by_group(templates), this.snapshot.groups
        self.progress = PlanInProgress(packer(self.simulation, self.growth), groups, labels, limits, where)
        self._unready = np.flatnonzero(~this.ready & ~this.leaving).astype(np.int32)
        search = settings.scale_up.search
        if len(rows) > MANY_SETS and search.replacement_work < BEST.replacement_work:
            search = search.for_one_of_many(0)
        request = self.state.resources.request
        self._size = (request / np.maximum(request.max(axis=0, initial=1), 1)).max(axis=1, initial=0.0)
        self._until = PlanBounds(this.work.limits, this.work.time_left, search)
        self._server = DemandServer[Checkpoint, Lack](self)

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.simulation.state

    @property
    def group_of(self) -> list[int]:
        """The group of each new node."""
        return self.progress.group_of

    def run(self) -> list[ServedRequest]:
        """Serve all; the moves stay. Raises MoveLogFullError."""
        rows = [*self._rows.values()]
        booked = [self._serve(row) for row in asking(rows, every=1) if row.request.outcome == Outcome.BOOKED]
        pending = pods_that_wait(self.this.snapshot, self.this.settings.expendable_priority)
        place_waiting_pods(self.this, pb.Decision.CAPACITY_REQUESTS, pending[~self._waiting[pending]])
        self.progress.commit()
        return booked + [self._serve(row) for row in asking(rows, every=1) if row.request.outcome != Outcome.BOOKED]

    def _serve(self, row: RequestRows) -> ServedRequest:
        """Give a request all of its room, or none; the moves stay for good."""
        request, first = row.request, len(self.group_of)
        may_add = np.full(len(row.pods), request.kind == Kind.ATOMIC_SCALE_UP)
        of_class = self.state.pod_class[row.pods]
        pods = row.pods[np.lexsort((row.pods, -self._size[of_class], self.state.local_class[of_class]))]
        lack = self._server.serve(DemandSet(request.request.key, pods, len(pods), may_add), [EVERYWHERE])
        self.progress.commit()
        is_booked = request.outcome == Outcome.BOOKED
        if lack is not None:
            is_final = request.request.no_retry and request.kind == Kind.CHECK_CAPACITY
            outcome = Outcome.REVOKED if is_booked else Outcome.FAILED if is_final else Outcome.NOT_FOUND
            return ServedRequest(request, outcome, row.pods[:0], range(0), lack)
        outcome = Outcome.COMING if self.settings.when_ready else Outcome.PROVISIONED
        if (self.state.pod_node[row.pods] < self.simulation.node_count).all():
            outcome = Outcome.FOUND
        new_nodes = range(first, len(self.group_of))
        return ServedRequest(request, Outcome.BOOKED if is_booked else outcome, row.pods, new_nodes)

    def ways(self, demand: DemandSet) -> list[int]:
        """Return the ways of placing a request."""
        request = self._rows[demand.key].request
        if request.outcome == Outcome.BOOKED:
            return [_BOOKED]
        ways = [_LARGEST_FIRST, _SMALLEST_FIRST] if sum(map(bool, request.missing)) > 1 else [_LARGEST_FIRST]
        is_local = self.state.local_class[self.state.pod_class[demand.pods]].all()
        return ways if is_local else [*ways, _ON_NEW_NODES]

    def place(self, demand: DemandSet, domain: Domain, way: int) -> PlacedSet:  # noqa: ARG002
        """Place the pods of a request on nodes that exist, are coming or were opened before, then on new ones."""
        progress, waiting = self.progress, demand.pods
        if way != _ON_NEW_NODES:
            waiting = progress.fill_in_passes(waiting[::-1] if way == _SMALLEST_FIRST else waiting, self._nodes)
        if way == _BOOKED:
            waiting = progress.fill_in_passes(waiting, self._unready)
        check_log(self.state)
        if len(waiting) and demand.may_add.all() and self.this.in_time() and place_all(progress, waiting, self._until):
            waiting = NOBODY
        return PlacedSet(len(waiting), (0, 0.0, 0, 0))

    def why(self, demand: DemandSet, domain: Domain, lacking: int) -> Lack:  # noqa: ARG002
        """Return what a request lacks."""
        waiting = unplaced(self.state, demand.pods)
        pod_count = self._rows[demand.key].request.pod_count
        return lack_of(self.progress, waiting, self._nodes, pod_count, may_add=bool(demand.may_add.all()))

    def checkpoint(self) -> Checkpoint:
        """Return the plan as it is, to go back to."""
        return self.progress.checkpoint()

    def return_to(self, before: Checkpoint) -> None:
        """Undo everything since a checkpoint."""
        self.progress.return_to(before)

    def in_time(self) -> bool:
        """Return whether there was time for everything that was tried."""
        return self.this.in_time()

    @property
    def _nodes(self) -> Int32:
        """The nodes that may take pods, best first. int32."""
        return np.concatenate([self.progress.others, self.progress.new_nodes])


KEPT_S: Final = 3600
"""How long an order is remembered, seconds: longer than any cloud takes to deliver."""
HOLDS_ROOM: Final = frozenset((Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.BOOKED))


def useless_orders(
    answers: Iterable[pb.CapacityRequestAnswer], state: pb.CapacityRequestsState | None
) -> list[pb.NodeOrder]:
    """Return the earlier orders of requests that hold no room and have not started either, the oldest first."""
    served = {
        (_key(answer), answer.uid)
        for answer in answers
        if answer.outcome in HOLDS_ROOM or answer.outcome == Outcome.CONSUMED
    }
    return [order for order in (state.orders if state is not None else ()) if (order.name, order.uid) not in served]


def add_useless(result: pb.CapacityRequestsDecision, state: pb.CapacityRequestsState | None, this: Round) -> Int32:
    """Name the nodes to give back, in the result and in the answers to their requests; return them, ascending. this :
    the round in which the last decision was taken, with its moves.
    """
    orders = useless_orders(result.requests, state)
    if not orders:
        return np.zeros(0, np.int32)
    answers = {(_key(request), request.uid): request for request in result.requests}
    unused = UnusedNodes(this, pb.Decision.CAPACITY_REQUESTS, {split.node_group for split in result.splits})
    touched = list[pb.CapacityRequestAnswer]()
    for order in orders:
        own = answers.get((order.name, order.uid))
        if unused.release(order, result.release, *([own.release] if own is not None else [])) and own is not None:
            touched.append(own)
    for own in {id(order): order for order in touched}.values():
        own.detail = f"{own.detail}; {_sentence(own)}" if own.detail else _sentence(own)
    return np.array([bisect_left(this.snapshot.nodes.name, name) for name in result.release.nodes], np.int32)


def _sentence(answer: pb.CapacityRequestAnswer) -> str:
    count, coming = len(answer.release.nodes), sum(answer.release.upcoming.values())
    here = f"{count} that {'has' if count == 1 else 'have'} come" if count else ""
    later = f"{coming} still to come" if coming else ""
    return f"nodes ordered for it are given back: {' and '.join(filter(None, (here, later)))}"


def _key(answer: pb.CapacityRequestAnswer) -> str:
    return f"{answer.namespace}/{answer.name}"


def next_orders(
    answers: Iterable[pb.CapacityRequestAnswer],
    orders: Iterable[pb.NodeOrder],
    new: Iterable[pb.NodeOrder],
    now_ns: int,
) -> list[pb.NodeOrder]:
    """Return the orders to remember, the oldest first: those of the last hour, except of requests all of whose pods
    have started. The nodes of these have done their service, and go as all others do."""
    over = {(_key(answer), answer.uid) for answer in answers if answer.outcome == Outcome.CONSUMED}
    recent = (order for order in orders if now_ns // SECOND_NS - order.order_time.seconds < KEPT_S)
    return [*(order for order in recent if (order.name, order.uid) not in over), *new]
