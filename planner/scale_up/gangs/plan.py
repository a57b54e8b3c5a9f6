"""The best plan in which every gang has places for its minimum, or none at all.

First, all pods are planned together, as if there were no gangs: if limits leave none of them, every gang is whole, at
the least price. Otherwise, and for gangs that must be in one domain, a plan is made in turn, which decides which gangs
are served; all pods that are to be served are then planned together once more, if that is cheaper and leaves every gang
whole. A gang that is no longer whole once all new nodes are present is dropped, and the plan is made again.

In turn, gangs and runs of single pods get their places one after the other, as kube-scheduler pops them: by priority,
then by age. A gang gets places for its minimum, on nodes that are there and on new ones of any groups together, or
none: then all that was tried for it is undone, and its turn is over (`trimtab.planner.new_nodes.demand_sets`). Nothing
that one needs is given to a later one. Pods beyond the minimum come with it, as far as limits allow; so they count like
single pods.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import nullcontext
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang, Reason
from trimtab.planner.facts.nodes import group_prices, total
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.model.tuning import MANY_SETS, SINGLE_POD_RUNS, TOLERANCE
from trimtab.planner.model.values import PodGroup
from trimtab.planner.new_nodes.demand_sets import NOBODY, DemandServer, DemandSet, Domain, PlacedSet, TopologyDomains
from trimtab.planner.new_nodes.progress import Checkpoint, Refusals, refuse
from trimtab.planner.new_nodes.whole_problem import PlannedNodes, joined
from trimtab.planner.placement.waiting import in_order, places, priorities, unplaced
from trimtab.planner.round.round import Round
from trimtab.planner.scale_up.context import PodsInGangs, ScaleUpContext
from trimtab.planner.scale_up.draft import Draft, PlanAttempt, PlanMode
from trimtab.planner.scale_up.gangs.report import in_several_domains, unplaceable, without_places
from trimtab.planner.scale_up.plan import GangOutcome, PlanHistory, Rejection, ScaleUpPlan, better_of, pending_of
from trimtab.planner.scale_up.variants import LIMITED, is_better, left_by, usual, worth
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Int32, Snapshot
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason

_DROPPED: Final = "its pods keep each other, or others, from their places once all new nodes are there"
_FOR_ALL, _FOR_NEEDED = 0, 1
"""Ways of placing a gang."""


class Turn(NamedTuple):
    """Pods that take their turn together. gang : position among the gangs, -1 = single pods; pods : int32."""

    gang: int
    pods: Int32


class _DraftCheckpoint(NamedTuple):
    """progress : as it was; choices, planned : how many there were; reasons : int32[G] as they were."""

    progress: Checkpoint
    choices: int
    planned: int
    reasons: Int32


class TurnDraft(Draft):
    """A plan made in turn. dropped : positions of gangs that get no places."""

    def __init__(
        self, attempt: PlanAttempt, gangs: Sequence[Gang], dropped: Set[int], domains: TopologyDomains
    ) -> None:
        is_whole = attempt.request.settings.expanders[0] == Expander.CHEAPEST_PLAN
        super().__init__(attempt, PlanMode.WHOLE if is_whole else PlanMode.BY_GROUP)
        if sum(gang.is_bound_together for gang in gangs) > MANY_SETS:
            settings = self.request.settings
            light = self.request._replace(settings=replace(settings, search=settings.search.for_one_of_many(0)))
            self.request, self.context = light, self.context._replace(request=light)
        self.gangs, self.dropped, self.domains = gangs, dropped, domains
        self.rejections: dict[int, Rejection] = {}
        self._server = DemandServer[_DraftCheckpoint, Rejection](self)
        self._plans: list[PlannedNodes] = []
        self._not_served: list[Int32] = []

    def run(self) -> ScaleUpPlan:
        """Make the plan, and complete it until it is valid with all its nodes present from the start."""
        progress, pending = self.progress, self.unplaced.pending
        displaced = self.unplaced.waiting[~np.isin(self.unplaced.waiting, pending.pods)]
        refused = [self._serve(displaced)]
        in_turn = turns(self.request.snapshot, progress.packer.simulation, self.gangs, pending.pods)
        for at, pods in in_turn:
            refused.append(self._single(pods) if at < 0 else self._gang(at, pods))
        for at, pods in turns_of_room(self.gangs, self.unplaced.held_back):
            refused.append(self._gang(at, pods))
            if at not in self.rejections:
                # From now on they count as other placeholders.
                placeholders = np.concatenate([self.unplaced.placeholders, pods])
                self.unplaced = self.unplaced._replace(placeholders=placeholders)
        placeholders = progress.fill(self._without_place(self.unplaced.placeholders))
        refusals, settled = self._settle(np.concatenate([*refused, self._grow(placeholders)]))
        self.planned = joined(self._plans)
        history = PlanHistory(self.planned, self.choices, self._final_reasons())
        outcome = GangOutcome(self.gangs, self.rejections, self._refuse_with_gangs(), self._domains())
        return ScaleUpPlan(self.context, self.unplaced, progress, history, refusals, settled, outcome)

    def _single(self, pods: Int32) -> Int32:
        """Place single pods; return those for which nodes may be added and that are on none."""
        adds_no_node = np.isin(pods, self.adds_no_node)
        without_growth = self.progress.fill_other_nodes(self._without_place(pods[adds_no_node]))
        self.left_without_growth = np.concatenate([self.left_without_growth, without_growth])
        return self._serve(pods[~adds_no_node])

    def _serve(self, pods: Int32) -> Int32:
        """Place pods on nodes that are there, and grow groups for the others; return those that are left."""
        waiting = self.progress.fill_others_first(self._without_place(pods))
        return self._grow_for(waiting) if len(waiting) else waiting

    def _grow_for(self, waiting: Int32) -> Int32:
        if self.out_of_time:
            return waiting
        waiting = self._plan_whole(waiting)
        if self.planned is not None:
            self._plans.append(self.planned)
            self.planned = None
        return self._grow(waiting)

    def _gang(self, at: int, members: Int32) -> Int32:
        """Place a gang, or reject it; return those of its pods that are left and for which nodes may be added.

        members : int32 its pending pods that scale-up serves, in the scheduler's order.
        """
        gang, rejection = self.gangs[at], self._place_gang(at, members)
        if rejection is not None:
            self.rejections[at] = rejection
            self._not_served.append(members)
            return NOBODY
        waiting = self._without_place(members)
        waiting = waiting[~np.isin(waiting, self.adds_no_node)]
        if not self.request.round.settings.gangs.serve_optional:
            return NOBODY
        if not gang.topology_key:
            return waiting
        self._not_served.append(waiting)
        return NOBODY

    def _place_gang(self, at: int, members: Int32) -> Rejection | None:
        """Place a gang in a domain; else change nothing, and return why."""
        gang = self.gangs[at]
        if at in self.dropped:
            return Rejection(Reason.NO_NODE_GROUP_FITS, detail=_DROPPED)
        if len(members) < max(gang.need, min(len(gang.pending), 1)):
            return unplaceable(gang, len(members))
        may_add = np.isin(members, self.adds_no_node, invert=True)
        demand = DemandSet(gang.key, members, gang.need, may_add, gang.topology_key, gang.bound)
        domains = self.domains.of(demand)
        if domains is None:
            return in_several_domains(gang)
        if not domains:
            detail = f"no node, and no new node of a group, has the label {gang.topology_key}"
            return Rejection(Reason.NO_DOMAIN_FITS, lacking=gang.need, detail=detail)
        return self._server.serve(demand, domains)

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.progress.state

    def ways(self, demand: DemandSet) -> tuple[int, ...]:
        """Return whether groups grow for all pods or for as many as are needed: as the settings prefer, then as limits
        allow."""
        if len(demand.pods) <= demand.need:
            return (_FOR_ALL,)
        serve_optional = self.request.round.settings.gangs.serve_optional
        return (_FOR_ALL, _FOR_NEEDED) if serve_optional else (_FOR_NEEDED, _FOR_ALL)

    def place(self, demand: DemandSet, domain: Domain, way: int) -> PlacedSet:
        """Place pods of a gang in a domain."""
        progress, members = self.progress, demand.pods
        count = len(progress.group_of)
        with nullcontext() if domain.reach is None else progress.within(domain.reach):
            waiting = progress.fill_others_first(self._without_place(members))
            wanted = waiting[~np.isin(waiting, self.adds_no_node)]
            wanted = wanted if way == _FOR_ALL else wanted[: max(demand.need - (len(members) - len(waiting)), 0)]
            if len(wanted):
                self._grow_for(wanted)
            progress.fill(self._without_place(members))
        waiting = self._without_place(members)
        price = group_prices(progress.groups[group] for group in progress.group_of[count:])
        unknown = int(np.isnan(price).sum())
        lacking = max(demand.need - (len(members) - len(waiting)), 0)
        return PlacedSet(lacking, (unknown, total(np.sort(price)), len(price), len(waiting)))

    def why(self, demand: DemandSet, domain: Domain, lacking: int) -> Rejection:
        """Return the rejection of a gang for which places were looked for."""
        progress = self.progress
        refusals = refuse(progress, self._without_place(demand.pods), self.reasons)
        groups = np.ones(len(progress.groups), bool) if domain.reach is None else domain.reach.groups
        return without_places(demand, lacking, progress, refusals, groups)

    def in_time(self) -> bool:
        """Return whether there was time for everything that was tried."""
        return not self.out_of_time

    def _refuse_with_gangs(self) -> Refusals:
        """Return why the pods of rejected gangs, and those kept in a domain without room, have no place."""
        refusals = self._refuse(np.concatenate([NOBODY, *self._not_served]))
        reason = refusals.reason
        reason[(reason == NodeGroupReason.NOT_EVALUATED) & (self.reasons != NodeGroupReason.NOT_EVALUATED)] = (
            NodeGroupReason.GANG_INCOMPLETE
        )
        return refusals

    def _domains(self) -> list[str]:
        """Return the value of each gang's topology key where its pending pods are, "" = none, or not all have it."""
        progress = self.progress
        values = (
            self.domains.of_nodes(
                gang.topology_key, progress.state.pod_node[gang.pending], progress.opened, progress.group_of
            )
            for gang in self.gangs
        )
        return [(domains or [""])[0] for domains in values]

    def checkpoint(self) -> _DraftCheckpoint:
        """Return the plan as it is, to go back to."""
        return _DraftCheckpoint(self.progress.checkpoint(), len(self.choices), len(self._plans), self.reasons.copy())

    def return_to(self, before: _DraftCheckpoint) -> None:
        """Undo everything since a checkpoint."""
        self.progress.return_to(before.progress)
        del self.choices[before.choices :], self._plans[before.planned :]
        self.reasons = before.reasons.copy()


def turns_of_room(gangs: Sequence[Gang], waiting: Int32) -> list[Turn]:
    """Return the turns of gangs of placeholders, in their order. waiting : int32 placeholders without a place."""
    return [Turn(at, gang.pending[np.isin(gang.pending, waiting)]) for at, gang in enumerate(gangs) if gang.is_room]


def turns(snapshot: Snapshot, simulation: Simulation, gangs: Sequence[Gang], pending: Int32) -> list[Turn]:
    """Return the turns of all pending : int32 pods, first the one that comes first; single pods in the usual order;
    none of placeholders."""
    together = [(at, gang) for at, gang in enumerate(gangs) if gang.is_bound_together and not gang.is_room]
    units = sorted((-gang.priority, gang.since_ns, gang.key, at) for at, gang in together)
    single = pending[~np.isin(pending, pending_pods_of(gang for _, gang in together))]
    priority, since_ns = priorities(simulation, single), snapshot.pods.created_s[single] * SECOND_NS
    ordered, has_turn = list[Turn](), np.zeros(len(single), bool)
    is_pending = np.zeros(len(simulation.state.pod_node), bool)
    is_pending[pending] = True
    runs_of: dict[int, int] = {}
    for minus_priority, at_ns, _, at in units:
        level = -minus_priority
        more_important = ~has_turn & (priority > level)
        older = ~has_turn & (priority == level) & (since_ns < at_ns)
        if older.any():
            runs_of[level] = runs_of.get(level, 0) + 1
            more_important |= older & (runs_of[level] < SINGLE_POD_RUNS)
        if more_important.any():
            ordered.append(Turn(-1, in_order(simulation, single[more_important])))
            has_turn |= more_important
        ordered.append(Turn(at, gangs[at].pending[is_pending[gangs[at].pending]]))
    return [*ordered, Turn(-1, in_order(simulation, single[~has_turn]))]


def pending_pods_of(gangs: Iterable[Gang]) -> Int32:
    """Return the pending pods of several gangs."""
    return np.concatenate([NOBODY, *(gang.pending for gang in gangs)]).astype(np.int32)


BestPlan = Callable[[ScaleUpContext, Simulation, int], ScaleUpPlan]
"""Returns the best plan for all pending pods, as if there were no gangs."""


def waiting_placeholder_gangs(this: Round) -> list[Gang]:
    """Return the gangs of placeholders that wait for room: all of such a gang have places, or none has."""
    pod_node, room = this.simulation.state.pod_node, this.room
    first, gangs = len(pod_node) - len(room.names), []
    for gang in room.gangs:
        pods = np.arange(first + room.bounds[gang.set], first + room.bounds[gang.set + 1], dtype=np.int32)
        if (pod_node[pods] == NO_NODE).all():
            group = PodGroup(gang.namespace, gang.name, gang.name, "", len(pods), gang.topology_key)
            gangs.append(Gang(gang.namespace, gang.name, group, pods, NOBODY, 0, 0, (), is_room=True))
    return gangs


def pods_in_gangs(gangs: Sequence[Gang], *, serve_optional: bool) -> PodsInGangs:
    """Return the pods that the scheduler holds, and those beyond a minimum that runs. serve_optional : nodes are added
    for these, too."""
    optional = () if serve_optional else (gang for gang in gangs if not (gang.held or gang.need or gang.is_room))
    return PodsInGangs(pending_pods_of(gang for gang in gangs if gang.held), NOBODY, pending_pods_of(optional))


def plan_with_gangs(
    context: ScaleUpContext, simulation: Simulation, start: int, gangs: Sequence[Gang], best: BestPlan
) -> ScaleUpPlan:
    """Return the best plan, with its moves in the simulation. gangs : those with pending pods; start : mark before
    anything is placed. Raises MoveLogFullError."""
    serve_optional = context.request.round.settings.gangs.serve_optional
    context = context._replace(gangs=pods_in_gangs(gangs, serve_optional=serve_optional))
    request = context.request
    usable = places(simulation, request.round.ready & ~request.leaving, request.growth.upcoming)
    domains = TopologyDomains(simulation, context.expanders.groups.labels, usable.order)
    together = [gang for gang in gangs if gang.is_bound_together]
    if not any(_needs_turn(context, gang) for gang in together) and not _exceeds_room(context, simulation):
        plan = best(context, simulation, start)
        if not _broken(plan, together, domains) and not len(left_by(plan, LIMITED)):
            return plan._replace(
                gangs=GangOutcome(gangs, {}, refuse(plan.progress, NOBODY, plan.history.reasons), [""] * len(gangs))
            )
    plan = _in_turn(context, simulation, start, gangs, domains)
    return _planned_together(plan, simulation, start, domains, best)


def _needs_turn(context: ScaleUpContext, gang: Gang) -> bool:
    """Return whether a gang cannot be planned with all others as if it were single pods."""
    has_optional = len(gang.pending) > gang.need
    only_minimum = has_optional and not context.request.round.settings.gangs.serve_optional
    return bool(gang.topology_key) or only_minimum


def _exceeds_room(context: ScaleUpContext, simulation: Simulation) -> bool:
    """Return whether the pods request more of some resource than all nodes have free and all groups may add: some get
    no place however they are packed, so that a plan for all of them together is not worth making."""
    resources, growth, limits = simulation.state.resources, context.request.growth, context.limits
    free = resources.free[:, : int(resources.first_device[0])]
    may_grow = np.flatnonzero((limits.reasons == 0) & (growth.template_node != NO_TEMPLATE_NODE))
    template = free[growth.template_node[may_grow]]
    here = np.concatenate([np.arange(simulation.node_count), growth.upcoming])
    node_counts = limits.may_add[may_grow].astype(np.float64)
    room = np.maximum(free[here], 0).sum(axis=0, dtype=np.float64) + node_counts @ np.maximum(template, 0)
    pending = pending_of(context)
    request = resources.request[simulation.state.pod_class[pending.pods[pending.may_add]]]
    request = request[:, : free.shape[1]]
    # Pods that no node is large enough for have no part in it.
    largest = np.concatenate([free[here], template]).max(axis=0, initial=0)
    requested = request[(request <= largest).all(axis=1)].sum(axis=0, dtype=np.float64)
    return bool((requested > room * (1 + TOLERANCE)).any())


def _broken(plan: ScaleUpPlan, gangs: Sequence[Gang], domains: TopologyDomains) -> list[Gang]:
    """Return the gangs that do not have places for their minimum, or are in several domains, or in none. To be called
    while the simulation contains the plan's moves."""
    broken = []
    for gang in gangs:
        pods, progress = np.concatenate([gang.pending, gang.bound]), plan.progress
        on = progress.state.pod_node[pods]
        values = domains.of_nodes(gang.topology_key, on, progress.opened, progress.group_of)
        waiting = unplaced(plan.progress.state, gang.pending)
        if len(gang.pending) - len(waiting) < gang.need or len(values) > 1 or "" in values:
            broken.append(gang)
    return broken


def _in_turn(
    context: ScaleUpContext, simulation: Simulation, start: int, gangs: Sequence[Gang], domains: TopologyDomains
) -> ScaleUpPlan:
    """Return the plan made in turn in which every gang is whole or has no place."""
    room = [gang.pending for gang in gangs if gang.is_room]
    variant = usual(context)._replace(held_back=np.concatenate([pending_of(context).pods, *room]))
    dropped: set[int] = set()
    while True:
        revert(simulation.state, start)
        plan = TurnDraft(PlanAttempt(context, simulation, variant), gangs, dropped, domains).run()
        check_log(simulation.state)
        assert plan.gangs is not None
        served = {at for at, gang in enumerate(gangs) if gang.is_bound_together and at not in plan.gangs.rejections}
        broken = {at for at in served if _broken(plan, [gangs[at]], domains)}
        if not broken:
            return _without_rejected(plan)
        dropped |= broken


def _without_rejected(plan: ScaleUpPlan) -> ScaleUpPlan:
    """Return a plan in which the pods of rejected gangs no longer count as pending."""
    assert plan.gangs is not None
    rejected = plan.gangs.refusals.pods
    unplaced, pending = plan.unplaced, plan.unplaced.pending
    keep = ~np.isin(pending.pods, rejected)
    unplaced = unplaced._replace(
        pending=pending._replace(pods=pending.pods[keep], may_add=pending.may_add[keep]),
        pods=unplaced.pods[~np.isin(unplaced.pods, rejected)],
        waiting=unplaced.waiting[~np.isin(unplaced.waiting, rejected)],
    )
    return plan._replace(unplaced=unplaced)


def _planned_together(
    plan: ScaleUpPlan, simulation: Simulation, start: int, domains: TopologyDomains, best: BestPlan
) -> ScaleUpPlan:
    """Return the plan for all pods that a plan serves, made together, if it is better and every gang is whole; else
    this plan. The moves of the plan returned are in the simulation."""
    assert plan.gangs is not None
    context, outcome = plan.context, plan.gangs
    served = [gang for at, gang in enumerate(outcome.gangs) if gang.is_bound_together and at not in outcome.rejections]
    if (
        any(_needs_turn(context, gang) for gang in served)
        or not plan.progress.group_of
        or not context.request.round.in_time()
    ):
        return plan
    expanders = context.request.settings.expanders
    context = context._replace(gangs=context.gangs._replace(rejected=outcome.refusals.pods))
    before = worth(plan)

    def make(other: Simulation) -> ScaleUpPlan:
        return best(context, other, start)._replace(gangs=outcome)

    def is_whole_and_better(together: ScaleUpPlan) -> bool:
        return not _broken(together, served, domains) and is_better(worth(together), before, expanders)

    return better_of(plan, simulation, start, make, is_whole_and_better)
