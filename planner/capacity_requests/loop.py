"""The loop over all ProvisioningRequests: room is held for those that are booked, then real pods that wait are placed,
then each other request gets all of its room or none. The moves stay in the round's simulation.

Pods of one set are one class; those about which only amounts and static predicates decide are placed many at a time.

Nodes to give back at once: ordered for a request that can no longer be completed, without pods and needed by none.

A cloud may deliver fewer nodes than were ordered. Then others are tried; if none can be had, those that came are of no
use, and those that are still to come will be: they would cost until scale-down finds them unneeded. Only after all
decisions of a plan is it known which nodes none of them uses.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.capacity_requests.kernels.sets import NOT_COUNTABLE, place_equal
from trimtab.planner.capacity_requests.requests import NO_LACK, AnsweredRequest, Lack, lack_of
from trimtab.planner.capacity_requests.settings import CapacityRequestSettings, Kind
from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.model.execution import asking
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.settings.search import BEST
from trimtab.planner.model.tuning import MANY_REQUESTS
from trimtab.planner.new_nodes.all_or_nothing import NewNodeRoom, place_all
from trimtab.planner.placement.group_templates import labels_by_group
from trimtab.planner.placement.packing import packer
from trimtab.planner.placement.waiting import place_anywhere, places, unplaced
from trimtab.planner.round.decision import room_to_grow
from trimtab.planner.round.round import Round
from trimtab.planner.round.waiting import nodes_in_use, place_waiting_pods, pods_that_wait, unused_since
from trimtab.planner.simulation.growth import SPARE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, commit
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1 import plan_pb2 as pb

Outcome = pb.CapacityRequestOutcome


class RequestRows(NamedTuple):
    """A request, and the virtual pods of its sets that have not started. bounds : the first pod of each set, and the
    end of the last one."""

    request: AnsweredRequest
    bounds: tuple[int, ...]

    @property
    def pods(self) -> Int32:
        """All its virtual pods. int32."""
        return np.arange(self.bounds[0], self.bounds[-1], dtype=np.int32)

    @property
    def sets(self) -> list[tuple[int, int]]:
        """First pod and number of pods of each set that has any."""
        pairs = zip(self.bounds[:-1], self.bounds[1:], strict=True)
        return [(first, last - first) for first, last in pairs if last > first]


class ServedRequest(NamedTuple):
    """What became of a request. outcome : `CapacityRequestOutcome.Code`; pods : int32 its virtual pods, those with room
    on nodes; new_nodes : positions of the nodes that were opened for it; lack : what it lacks."""

    request: AnsweredRequest
    outcome: int
    pods: Int32
    new_nodes: range
    lack: Lack = NO_LACK


@dataclass
class CapacityLoop:
    """Serves the requests of one plan, one after the other."""

    this: Round
    settings: CapacityRequestSettings
    rows: Sequence[RequestRows]
    waiting: Bool
    group_of: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        this = self.this
        self.growth = this.growth_of(pb.Decision.CAPACITY_REQUESTS)
        templates, self.limits = room_to_grow(this, self.settings.scale_up)
        self.labels = labels_by_group(templates)
        self.simulation, self.packer = this.simulation, packer(this.simulation, self.growth)
        where = places(this.simulation, this.ready & ~this.leaving, self.growth.upcoming)
        self.order, self.allowed = where.order, where.allowed
        self.cursor = np.zeros(len(this.simulation.state.local_class), np.int64)
        self._failed: dict[tuple[int, tuple[tuple[int, int], ...]], Lack] = {}

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.simulation.state

    def run(self) -> list[ServedRequest]:
        """Serve all; the moves stay. Raises MoveLogFullError."""
        served = []
        for one in asking(self.rows, every=1):
            if one.request.outcome == Outcome.BOOKED:
                served.append(self._hold(one))
                commit(self.state)
        pending = pods_that_wait(self.this.snapshot, self.this.settings.expendable_priority)
        place_waiting_pods(self.this, pb.Decision.CAPACITY_REQUESTS, pending[~self.waiting[pending]])
        commit(self.state)
        for one in asking(self.rows, every=1):
            if one.request.outcome != Outcome.BOOKED:
                served.append(self._serve(one))
                commit(self.state)
        return served

    def _hold(self, one: RequestRows) -> ServedRequest:
        """Hold the room of a booked request, on nodes that are not ready if no others have room: a node that is away
        for a moment does not end a booking. If nodes are gone, others may come."""
        cursor, left = self.cursor.copy(), self._fill(one)
        if len(left):
            left = self._fill_unready(left)
        if not len(left):
            return self._served(one, Outcome.BOOKED)
        new_nodes = self._grow(one, left)
        if new_nodes is not None:
            return self._served(one, Outcome.BOOKED, new_nodes)
        lack = self._lack(one, left)
        revert(self.state, 0)
        self.cursor[:] = cursor
        return ServedRequest(one.request, Outcome.REVOKED, left[:0], range(0), lack)

    def _serve(self, one: RequestRows) -> ServedRequest:
        """Give a request all of its room, or none."""
        key = self._key(one)
        known = self._failed.get(key) if key is not None else None
        if known is not None:
            return self._not_served(one, known)
        cursor, orders = self.cursor.copy(), [False, True] if len(one.sets) > 1 else [False]
        for backwards in orders:
            left = self._fill(one, backwards)
            if not len(left):
                return self._served(one, self._outcome_of(one.pods))
            new_nodes = self._grow(one, left)
            if new_nodes is not None:
                return self._served(one, self._outcome_of(one.pods), new_nodes)
            lack = self._lack(one, left)
            revert(self.state, 0)
            self.cursor[:] = cursor
        if not self.state.local_class[self.state.pod_class[one.pods]].all():
            new_nodes = self._grow(one, one.pods)
            if new_nodes is not None:
                return self._served(one, self._outcome_of(one.pods), new_nodes)
        if key is not None:
            self._failed[key] = lack
        return self._not_served(one, lack)

    def _key(self, one: RequestRows) -> tuple[int, tuple[tuple[int, int], ...]] | None:
        """Return what tells whether another request would fail likewise: room only gets less. None = other pods decide,
        too."""
        classes = tuple((int(self.state.pod_class[first]), count) for first, count in one.sets)
        is_local = all(self.state.local_class[of_class] for of_class, _ in classes)
        return (one.request.kind, classes) if is_local else None

    def _outcome_of(self, pods: Int32) -> int:
        """Return the outcome of a request that has room : by the nodes on which it is."""
        at = self.state.pod_node[pods]
        if (at < self.simulation.node_count).all():
            return Outcome.FOUND
        return Outcome.COMING if self.settings.when_ready else Outcome.PROVISIONED

    def _served(self, one: RequestRows, outcome: int, new_nodes: range = range(0)) -> ServedRequest:
        check_log(self.state)
        return ServedRequest(one.request, outcome, one.pods, new_nodes)

    def _not_served(self, one: RequestRows, lack: Lack) -> ServedRequest:
        is_final = one.request.request.no_retry and one.request.kind == Kind.CHECK_CAPACITY
        outcome = Outcome.FAILED if is_final else Outcome.NOT_FOUND
        return ServedRequest(one.request, outcome, one.pods[:0], range(0), lack)

    def _fill(self, one: RequestRows, backwards: bool = False) -> Int32:
        """Place the pods of a request on nodes that exist, are coming or were opened before; return those left. int32.

        backwards : the smallest set first."""
        state = self.state
        request = state.resources.request
        most = np.maximum(request.max(axis=0, initial=1), 1)
        size = {first: float((request[state.pod_class[first]] / most).max()) for first, _ in one.sets}
        bound = {first: int(state.local_class[state.pod_class[first]]) for first, _ in one.sets}
        sets = sorted(one.sets, key=lambda each: (bound[each[0]], -size[each[0]], each[0]))
        for first, count in reversed(sets) if backwards else sets:
            pods = np.arange(first, first + count, dtype=np.int32)
            if place_equal(state, first, count, self.order, self.cursor) == NOT_COUNTABLE:
                place_anywhere(state, self.order, self.allowed, pods)
        check_log(state)
        return unplaced(state, one.pods)

    def _fill_unready(self, left: Int32) -> Int32:
        """Place pods on nodes that are not ready; return those left. int32."""
        away = ~self.this.ready & ~self.this.leaving
        order = np.flatnonzero(away).astype(np.int32)
        allowed = np.zeros(len(self.allowed), bool)
        allowed[order] = True
        place_anywhere(self.state, order, allowed, left)
        return unplaced(self.state, left)

    def _grow(self, one: RequestRows, left: Int32) -> range | None:
        """Open nodes with which all pods that are left have a place, if the class allows it; return their positions."""
        if one.request.kind != Kind.ATOMIC_SCALE_UP or not self.this.in_time():
            return None
        first = len(self.group_of)
        opened = place_all(self.new_node_room(), left)
        if opened is None:
            return None
        self.group_of += opened
        nodes = self.growth.spare_nodes[first : len(self.group_of)].astype(np.int32)
        self.order = np.concatenate([self.order, nodes])
        self.allowed[nodes] = True
        return range(first, len(self.group_of))

    def new_node_room(self) -> NewNodeRoom:
        """Return what may still be opened."""
        settings, work = self.settings.scale_up, self.this.work
        search = settings.search
        if len(self.rows) > MANY_REQUESTS and search.replacement_work < BEST.replacement_work:
            search = search.for_one_of_many(0)
        until = PlanBounds(work.limits, work.time_left, search)
        spare_count = max(len(self.growth.spare_nodes) - SPARE, 0)
        return NewNodeRoom(
            self.packer, self.this.snapshot.groups, self.labels, self.limits, len(self.group_of), spare_count, until
        )

    def _lack(self, one: RequestRows, left: Int32) -> Lack:
        """Return what a request lacks. left : int32, its pods without room."""
        grows = one.request.kind == Kind.ATOMIC_SCALE_UP
        return lack_of(
            self.new_node_room() if grows else None, self.simulation, left, self.order, one.request.pod_count
        )


KEPT_S: Final = 3600
"""How long an order is remembered, seconds: longer than any cloud takes to deliver."""
HOLDS_ROOM: Final = frozenset((Outcome.FOUND, Outcome.PROVISIONED, Outcome.COMING, Outcome.BOOKED))


def useless_orders(
    answers: Iterable[pb.CapacityRequestAnswer], state: pb.CapacityRequestsState | None
) -> list[pb.NodeOrder]:
    """Return the earlier orders of requests that hold no room and have not started either, the oldest first."""
    served = {(_key(one), one.uid) for one in answers if one.outcome in HOLDS_ROOM or one.outcome == Outcome.CONSUMED}
    return [one for one in (state.orders if state is not None else ()) if (one.name, one.uid) not in served]


def add_useless(result: pb.CapacityRequestsDecision, state: pb.CapacityRequestsState | None, this: Round) -> Int32:
    """Name the nodes to give back, in the result and in the answers to their requests; return them, ascending. this :
    the round in which the last decision was taken, with its moves.
    """
    orders = useless_orders(result.requests, state)
    if not orders:
        return np.zeros(0, np.int32)
    answers = {(_key(one), one.uid): one for one in result.requests}
    search, touched = (
        _UselessNodes(this, {split.node_group for split in result.splits}),
        list[pb.CapacityRequestAnswer](),
    )
    for order in orders:
        nodes, coming = search.of(order)
        own = answers.get((order.name, order.uid))
        for release in (result.release, *([own.release] if own is not None else ())) if nodes or coming else ():
            release.nodes.extend(nodes)
            release.nodes.sort()
            if coming:
                release.upcoming[order.node_group] += coming
        if own is not None and (nodes or coming):
            touched.append(own)
    for own in {id(one): one for one in touched}.values():
        own.detail = f"{own.detail}; {_sentence(own)}" if own.detail else _sentence(own)
    return np.array([bisect_left(this.snapshot.nodes.name, name) for name in result.release.nodes], np.int32)


class _UselessNodes:
    """Finds the unused nodes of one order after the other; those of an order are no other one's."""

    def __init__(self, this: Round, grows: set[str]) -> None:
        """grows : ids of the groups that get nodes for requests in this plan: what is to come of them may be these."""
        self._snapshot = this.snapshot
        self._growth = this.growth_of(pb.Decision.CAPACITY_REQUESTS)
        self._in_use = nodes_in_use(this, this.simulation.state)
        self._group_at = {group.id: number for number, group in enumerate(this.snapshot.groups)}
        self._above_min = [max(group.target_size - group.min_size, 0) for group in this.snapshot.groups]
        self._grows = grows

    def of(self, order: pb.NodeOrder) -> tuple[list[str], int]:
        """Return the names of the nodes that have come, and how many are to come. No group gets below its minimum."""
        if order.node_group not in self._group_at:
            return [], 0
        group = self._group_at[order.node_group]
        most = min(order.count, self._above_min[group])
        here = unused_since(self._snapshot, group, order.order_time.seconds, self._in_use)[:most]
        coming = self._upcoming(group)
        coming = coming[~self._in_use[coming]][: most - len(here)]
        self._in_use[here] = self._in_use[coming] = True
        self._above_min[group] -= len(here) + len(coming)
        return [self._snapshot.nodes.name[node] for node in here.tolist()], len(coming)

    def _upcoming(self, group: int) -> Int64:
        """Return the nodes of a group that are to come; none if no decision has asked for upcoming nodes."""
        is_known = group + 1 < len(self._growth.upcoming_offsets) and self._snapshot.groups[group].id not in self._grows
        return self._growth.upcoming_of(group) if is_known else np.zeros(0, np.int64)


def _sentence(one: pb.CapacityRequestAnswer) -> str:
    count, coming = len(one.release.nodes), sum(one.release.upcoming.values())
    here = f"{count} that {'has' if count == 1 else 'have'} come" if count else ""
    later = f"{coming} still to come" if coming else ""
    return f"nodes ordered for it are given back: {' and '.join(filter(None, (here, later)))}"


def _key(one: pb.CapacityRequestAnswer) -> str:
    return f"{one.namespace}/{one.name}"


def next_orders(
    answers: Iterable[pb.CapacityRequestAnswer],
    orders: Iterable[pb.NodeOrder],
    new: Iterable[pb.NodeOrder],
    now_ns: int,
) -> list[pb.NodeOrder]:
    """Return the orders to remember, the oldest first: those of the last hour, except of requests all of whose pods
    have started. The nodes of these have done their service, and go as all others do."""
    over = {(_key(one), one.uid) for one in answers if one.outcome == Outcome.CONSUMED}
    recent = (one for one in orders if now_ns // SECOND_NS - one.order_time.seconds < KEPT_S)
    return [*(one for one in recent if (one.name, one.uid) not in over), *new]
