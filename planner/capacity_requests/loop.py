"""The loop over all ProvisioningRequests: room is held for those that are booked, then real pods that wait are placed,
then each other request gets all of its room or none. The moves stay in the round's simulation.

Pods of one set are one class; those about which only amounts and static predicates decide are placed many at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.capacity_requests.kernels.sets import NOT_COUNTABLE, place_equal
from trimtab.planner.capacity_requests.lack import NO_LACK, Lack, lack_of
from trimtab.planner.capacity_requests.requests import AnsweredRequest
from trimtab.planner.capacity_requests.settings import CapacityRequestSettings, Kind
from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.facts.nodes import being_deleted
from trimtab.planner.model.execution import asking
from trimtab.planner.model.settings.search import BEST
from trimtab.planner.new_nodes.all_or_nothing import NewNodeRoom, place_all
from trimtab.planner.placement.group_templates import group_templates, labels_by_group
from trimtab.planner.placement.limits import LimitInputs, Limits
from trimtab.planner.placement.packing import packer
from trimtab.planner.placement.waiting import place_anywhere, places, unplaced
from trimtab.planner.round.round import Round
from trimtab.planner.round.waiting import place_waiting_pods, pods_that_wait
from trimtab.planner.simulation.growth import SPARE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, commit
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Bool, Int32
from trimtab.v1 import plan_pb2 as pb

Outcome = pb.CapacityRequestOutcome
MANY_REQUESTS: Final = 32
"""Requests above which the nodes of each are planned quickly; plans for pods of one class are the cheapest anyway."""


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
        snapshot, this = self.this.snapshot, self.this
        self.growth = this.growth_of(pb.Decision.CAPACITY_REQUESTS)
        self.leaving = being_deleted(snapshot, this.now_ns)
        templates = group_templates(
            snapshot, self.settings.scale_up, self.leaving, this.now_ns, this.work.cache, this.work.limits
        )
        self.labels = labels_by_group(templates)
        cluster = LimitInputs(snapshot, templates, self.leaving, this.now_ns)
        self.limits = Limits(cluster, this.settings.limits, self.settings.scale_up.max_new_nodes)
        self.simulation, self.packer = this.simulation, packer(this.simulation, self.growth)
        where = places(this.simulation, this.ready & ~self.leaving, self.growth.upcoming)
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
        place_waiting_pods(self.this, pb.Decision.CAPACITY_REQUESTS, self.leaving, pending[~self.waiting[pending]])
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
        away = ~self.this.ready & ~self.leaving
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
