"""One plan made in turn: gangs and runs of single pods get their places one after the other, in the scheduler's order.

A gang gets places for its minimum, on nodes that are there and on new ones of any groups together, or none: then all
that was tried for it is undone, and its turn is over. Nothing that one needs is given to a later one. Of the domains in
which a gang may be, the cheapest is taken in which it is whole. Pods beyond the minimum come with it, as far as limits
allow; so they count like single pods. Gangs of the same pods as one that was rejected are rejected without trying,
because room only becomes less; this holds if a node alone decides whether it takes the pods.
"""

from collections.abc import Sequence, Set
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.gangs import Gang, Reason
from trimtab.planner.facts.nodes import group_prices, total
from trimtab.planner.model.tuning import MANY_GANGS
from trimtab.planner.new_nodes.planned_nodes import PlannedNodes, joined
from trimtab.planner.scale_up.draft import Draft, PlanAttempt, PlanMode
from trimtab.planner.scale_up.gangs.demand import NOBODY, Domain, GangDomains, Turn, turns, turns_of_room
from trimtab.planner.scale_up.gangs.report import in_several_domains, unplaceable, without_places
from trimtab.planner.scale_up.plan import GangOutcome, PlanHistory, Refusals, Rejection, ScaleUpPlan, refuse
from trimtab.planner.scale_up.progress import Checkpoint
from trimtab.planner.snapshot.columns import Int32
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason

_DROPPED: Final = "its pods keep each other, or others, from their places once all new nodes are there"
Rate = tuple[int, float, int, int]


class _DraftCheckpoint(NamedTuple):
    """progress : as it was; choices, planned : how many there were; reasons : int32[G] as they were."""

    progress: Checkpoint
    choices: int
    planned: int
    reasons: Int32


class _DomainAttempt(NamedTuple):
    """The result of an attempt for a gang in a domain. lacking : pods that it still needs; rate : what its new nodes
    cost, smaller is better."""

    domain: Domain
    lacking: int
    rate: Rate


class TurnDraft(Draft):
    """A plan made in turn. dropped : positions of gangs that get no places."""

    def __init__(self, attempt: PlanAttempt, gangs: Sequence[Gang], dropped: Set[int], domains: GangDomains) -> None:
        is_whole = attempt.request.settings.expanders[0] == Expander.CHEAPEST_PLAN
        super().__init__(attempt, PlanMode.WHOLE if is_whole else PlanMode.BY_GROUP)
        if sum(gang.is_bound_together for gang in gangs) > MANY_GANGS:
            settings = self.request.settings
            search = replace(settings.search, programme_entries=0, improves=False)
            light = self.request._replace(settings=replace(settings, search=search))
            self.request, self.context = light, self.context._replace(request=light)
        self.gangs, self.dropped, self.domains = gangs, dropped, domains
        self.rejections: dict[int, Rejection] = {}
        self._shapes: dict[tuple[object, ...], Rejection] = {}
        self._best_domains: dict[tuple[object, ...], _DomainAttempt] = {}
        self._plans: list[PlannedNodes] = []
        self._not_served: list[Int32] = []

    def run(self) -> ScaleUpPlan:
        """Make the plan, and complete it until it is valid with all its nodes present from the start."""
        progress, pending = self.progress, self.unplaced.pending
        displaced = self.unplaced.left[~np.isin(self.unplaced.left, pending.pods)]
        left = [self._serve(displaced)]
        in_turn = turns(self.request.snapshot, progress.packer.simulation, self.gangs, pending.pods)
        for is_single, some in groupby(in_turn, lambda turn: turn.gang < 0):
            group = list(some)
            left += [self._single(turn.pods) for turn in group] if is_single else self._gangs(group)
        left += self._room()
        placeholders = progress.fill(self._without_place(self.unplaced.placeholders))
        refusals, settled = self._settle(np.concatenate([*left, self._grow(placeholders)]))
        self.planned = joined(self._plans)
        history = PlanHistory(self.planned, self.choices, self._final_reasons())
        outcome = GangOutcome(self.gangs, self.rejections, self._refuse_with_gangs(), self._domains())
        return ScaleUpPlan(self.context, self.unplaced, progress, history, refusals, settled, outcome)

    def _room(self) -> list[Int32]:
        """Place gangs of placeholders; those that are whole count as other placeholders from then on."""
        found = turns_of_room(self.gangs, self.unplaced.held_back)
        left = self._gangs(found)
        whole = [turn.pods for turn in found if turn.gang not in self.rejections]
        self.unplaced = self.unplaced._replace(placeholders=np.concatenate([self.unplaced.placeholders, *whole]))
        return left

    def _single(self, pods: Int32) -> Int32:
        """Place single pods; return those for which nodes may be added and that are on none."""
        adds_no_node = np.isin(pods, self.adds_no_node)
        without_growth = self.progress.fill_other_nodes(self._without_place(pods[adds_no_node]))
        self.left_without_growth = np.concatenate([self.left_without_growth, without_growth])
        return self._serve(pods[~adds_no_node])

    def _serve(self, pods: Int32) -> Int32:
        """Place pods on nodes that are there, and grow groups for the others; return those that are left."""
        left = self.progress.fill_others_first(self._without_place(pods))
        return self._grow_for(left) if len(left) else left

    def _grow_for(self, left: Int32) -> Int32:
        if self.out_of_time:
            return left
        left = self._plan_whole(left)
        if self.planned is not None:
            self._plans.append(self.planned)
            self.planned = None
        return self._grow(left)

    def _gangs(self, some: Sequence[Turn]) -> list[Int32]:
        """Place gangs that follow each other; return their pods that are left and for which nodes may be added.

        Several are placed at a time, twice as many each time, as long as all their pods get places: then each would get
        them in its turn.
        """
        left, first, count = list[Int32](), 0, 1
        while first < len(some):
            together = self._before_domains(some[first : first + count])
            if len(together) > 1 and self._all_placed(together):
                first, count = first + len(together), 2 * count
                continue
            at, members = some[first]
            left.append(self._gang(at, members))
            first += 1
            if at in self.rejections:
                count = max(count // 4, 1)
            elif not self.gangs[at].topology_key:
                count = max(count, 2) if len(together) == 1 else 2 * max(count // 4, 1)
        return left

    def _before_domains(self, some: Sequence[Turn]) -> Sequence[Turn]:
        """Return the first gangs of several, up to the first that a domain binds."""
        bound = (number for number, turn in enumerate(some) if self.gangs[turn.gang].topology_key)
        return some[: next(bound, len(some))]

    def _all_placed(self, some: Sequence[Turn]) -> bool:
        """Place gangs together if all their pods find places; else change nothing, and return False."""
        if any(self._rejected_at_once(at, self.gangs[at], pods) for at, pods in some):
            return False
        before, pods = self._checkpoint(), np.concatenate([turn.pods for turn in some])
        self._serve(pods)
        if not len(self._without_place(pods)):
            return True
        self._return_to(before)
        return False

    def _gang(self, at: int, members: Int32) -> Int32:
        """Place a gang, or reject it; return those of its pods that are left and for which nodes may be added.

        members : int32 its pending pods that scale-up serves, in the scheduler's order.
        """
        gang = self.gangs[at]
        rejection = self._rejected_at_once(at, gang, members) or self._place_in_best_domain(at, gang, members)
        if rejection is not None:
            self.rejections[at] = rejection
            self._not_served.append(members)
            return NOBODY
        left = self._without_place(members)
        left = left[~np.isin(left, self.adds_no_node)]
        if not self.request.round.settings.gangs.serve_optional:
            return NOBODY
        if not gang.topology_key:
            return left
        self._not_served.append(left)
        return NOBODY

    def _rejected_at_once(self, at: int, gang: Gang, members: Int32) -> Rejection | None:
        """Return the rejection of a gang for which no places need to be looked for."""
        if at in self.dropped:
            return Rejection(at, Reason.NO_NODE_GROUP_FITS, detail=_DROPPED)
        if len(members) < max(gang.need, min(len(gang.pending), 1)):
            return unplaceable(at, gang, len(members))
        known = self._shapes.get(self._shape(gang, members))
        return None if known is None else known._replace(gang=at)

    def _shape(self, gang: Gang, members: Int32) -> tuple[object, ...]:
        """Return a key that gangs share if one is rejected wherever the other is; unique if there are none such."""
        state = self.progress.state
        classes, counts = np.unique(state.pod_class[members], return_counts=True)
        if (gang.topology_key and len(gang.bound)) or not state.local_class[classes].all():
            return (gang.key,)
        grows = np.isin(members, self.adds_no_node, invert=True)
        return classes.tobytes(), counts.tobytes(), gang.need, int(grows.sum()), gang.topology_key

    def _place_in_best_domain(self, at: int, gang: Gang, members: Int32) -> Rejection | None:
        """Place a gang in the cheapest domain in which it is whole; else change nothing, and return why."""
        domains = self.domains.of(gang)
        if domains is None:
            return in_several_domains(at, gang)
        best = self._as_before(gang, members, len(domains))
        if best is not None:
            return None
        rejections: list[Rejection] = []
        before = self._checkpoint()
        for domain in domains:
            tried = self._try(gang, members, domain)
            if tried.lacking:
                rejections.append(self._why(at, gang, members, tried))
            elif len(domains) == 1 or (not tried.rate[2] and not len(self._without_place(members))):
                return None
            elif best is None or tried.rate < best.rate:
                best = tried
            self._return_to(before)
        if best is not None:
            self._best_domains[self._shape(gang, members)] = best
            self._try(gang, members, best.domain)
            return None
        found = min(rejections, key=lambda one: one.lacking, default=None)
        if found is None:
            detail = f"no node, and no new node of a group, has the label {gang.topology_key}"
            found = Rejection(at, Reason.NO_DOMAIN_FITS, lacking=gang.need, detail=detail)
        if not self.out_of_time:
            self._shapes[self._shape(gang, members)] = found
        return found

    def _as_before(self, gang: Gang, members: Int32, domain_count: int) -> _DomainAttempt | None:
        """Place a gang where the last one with the same pods was cheapest, if that costs no more than it did: no other
        domain has become cheaper since. Return None, and change nothing, otherwise."""
        last = self._best_domains.get(self._shape(gang, members)) if domain_count > 1 else None
        if last is None:
            return None
        before = self._checkpoint()
        tried = self._try(gang, members, last.domain)
        if not tried.lacking and tried.rate <= last.rate:
            return tried
        self._return_to(before)
        return None

    def _try(self, gang: Gang, members: Int32, domain: Domain) -> _DomainAttempt:
        """Place a gang in a domain, all of it or as many as it needs, whichever the settings prefer and limits allow;
        the moves stay."""
        first, more = self._checkpoint(), len(members) > gang.need
        every = self.request.round.settings.gangs.serve_optional or not more
        tried = self._place(gang, members, domain, every=every)
        if tried.lacking and more and not self.out_of_time:
            self._return_to(first)
            tried = self._place(gang, members, domain, every=not every)
        return tried

    def _place(self, gang: Gang, members: Int32, domain: Domain, *, every: bool) -> _DomainAttempt:
        """Place pods of a gang in a domain. every : groups grow for all of them, not only for as many as it needs."""
        progress, count = self.progress, len(self.progress.group_of)
        with nullcontext() if domain.reach is None else progress.within(domain.reach):
            left = progress.fill_others_first(self._without_place(members))
            wanted = left[~np.isin(left, self.adds_no_node)]
            wanted = wanted if every else wanted[: max(gang.need - (len(members) - len(left)), 0)]
            if len(wanted):
                self._grow_for(wanted)
            progress.fill(self._without_place(members))
        left = self._without_place(members)
        lacking = max(gang.need - (len(members) - len(left)), 0)
        price = group_prices(progress.groups[group] for group in progress.group_of[count:])
        unknown = int(np.isnan(price).sum())
        return _DomainAttempt(domain, lacking, (unknown, total(np.sort(price)), len(price), len(left)))

    def _why(self, at: int, gang: Gang, members: Int32, tried: _DomainAttempt) -> Rejection:
        progress, reach = self.progress, tried.domain.reach
        left = self._without_place(members)
        groups = np.ones(len(progress.groups), bool) if reach is None else reach.groups
        return without_places(at, gang, tried.lacking, progress, refuse(progress, left, self.reasons), groups)

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
        return [(self.domains.of_pods(gang, gang.pending, self.progress) or [""])[0] for gang in self.gangs]

    def _checkpoint(self) -> _DraftCheckpoint:
        return _DraftCheckpoint(self.progress.checkpoint(), len(self.choices), len(self._plans), self.reasons.copy())

    def _return_to(self, before: _DraftCheckpoint) -> None:
        self.progress.return_to(before.progress)
        del self.choices[before.choices :], self._plans[before.planned :]
        self.reasons = before.reasons.copy()
