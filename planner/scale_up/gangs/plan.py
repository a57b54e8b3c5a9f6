"""The best plan in which every gang has places for its minimum, or none at all.

First, all pods are planned together, as if there were no gangs: if limits leave none of them, every gang is whole, at
the least price. Otherwise, and for gangs that must be in one domain, a plan is made in turn, which decides which gangs
are served; all pods that are to be served are then planned together once more, if that is cheaper and leaves every gang
whole. A gang that is no longer whole once all new nodes are present is dropped, and the plan is made again.
"""

from collections.abc import Callable, Sequence

import numpy as np

from trimtab.planner.facts.gangs import Gang
from trimtab.planner.model.tuning import TOLERANCE
from trimtab.planner.model.values import PodGroup
from trimtab.planner.new_nodes.demand_sets import NOBODY, TopologyDomains
from trimtab.planner.new_nodes.refusals import refuse
from trimtab.planner.placement.waiting import places, unplaced
from trimtab.planner.round.round import Round
from trimtab.planner.scale_up.context import PodsInGangs, ScaleUpContext
from trimtab.planner.scale_up.draft import PlanAttempt
from trimtab.planner.scale_up.gangs.turns import TurnDraft, pending_pods_of
from trimtab.planner.scale_up.plan import GangOutcome, ScaleUpPlan, better_of
from trimtab.planner.scale_up.variants import LIMITED, is_better, left_by, usual, worth
from trimtab.planner.scale_up.waiting_pods import pending_of
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import NO_TEMPLATE_NODE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log
from trimtab.planner.snapshot.columns import NO_NODE

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
