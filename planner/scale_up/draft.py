"""One plan: choose a group, grow it and those that share its growth, and repeat with the pods that are left; or use
given new nodes. Leaves the simulation with the new nodes open and all pods placed.
"""

from dataclasses import replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from trimtab.planner.cheapest.problem import PlanBounds
from trimtab.planner.facts.similarity import ZONE_LABEL
from trimtab.planner.model.tuning import MOST_PRIORITIES, SETTLING_ROUNDS
from trimtab.planner.new_nodes.cheapest_nodes import plan_whole
from trimtab.planner.new_nodes.progress import PlanInProgress, Refusals, refuse
from trimtab.planner.new_nodes.whole_problem import PlannedNodes, bound_by_zones, joined
from trimtab.planner.placement.packing import GrowingGroups, Packed, pack, packer
from trimtab.planner.placement.waiting import priorities, unplaced
from trimtab.planner.predicates.counters import needs_one_node
from trimtab.planner.scale_up.balance import Sharing, split_within
from trimtab.planner.scale_up.context import ScaleUpContext
from trimtab.planner.scale_up.estimate import Estimate, EstimateInput, GroupChoice, as_options, estimates
from trimtab.planner.scale_up.expanders import ChoiceState, Chooser
from trimtab.planner.scale_up.plan import (
    PlanHistory,
    ScaleUpPlan,
    UnplacedPods,
    place_at,
    place_on_existing_nodes,
    rating,
)
from trimtab.planner.scale_up.repacking import RepackedNodes
from trimtab.planner.scale_up.variants import Variant
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import place, revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason

_LAST_RESORT = 1 << 30
"""Size of a group that grows only if another one cannot."""


class SharedGrowth(NamedTuple):
    """group_of : group of each new node; pods, node_of : int32[M] as in `Packed`."""

    group_of: list[int]
    pods: Int32
    node_of: Int32


def share_growth(
    progress: PlanInProgress, sharing: Sharing, option: Estimate, waiting: Int32, admits: Bool
) -> SharedGrowth:
    """Return the result of carrying out an option. waiting : int32 pods; admits : bool[S, G] as in `GroupBounds`, by
    class.
    """
    others = sharing.similarity.to(option.group)
    groups = np.concatenate([np.array([option.group], np.int64), others[progress.limits.reasons[others] == 0]])
    growth: SharedGrowth | None = None
    if len(groups) > 1 and not progress.groups[option.group].zero_or_max:
        if sharing.balance:
            growth = _balanced(progress, sharing, groups, option, waiting, admits)
        else:
            growth = _helped_out(progress, groups, option)
    return growth or _alone(progress, option)


def _alone(progress: PlanInProgress, option: Estimate) -> SharedGrowth:
    """Grow the chosen group alone, as far as allowed."""
    may_add = int(progress.limits.may_add[option.group])
    if option.node_count <= may_add:
        return SharedGrowth([option.group] * option.node_count, option.pods, option.packed.node_of)
    group, nobody = np.array([option.group], np.int64), np.zeros(1, np.int64)
    packed = _packed(progress, group, nobody, np.array([may_add], np.int64), option.pods)
    return SharedGrowth([option.group] * packed.nodes, option.pods, packed.node_of)


def _balanced(
    progress: PlanInProgress, sharing: Sharing, groups: Int64, option: Estimate, waiting: Int32, admits: Bool
) -> SharedGrowth | None:
    """Grow the groups evenly for all pods that any of them takes, or else for those that all of them take."""
    sizes = sharing.sizes[groups] + progress.limits.added[groups]
    # Among groups of equal size, the packed that was smaller before comes first.
    groups = groups[np.argsort(sizes, kind="stable")]
    pod_class = progress.state.pod_class
    takers = admits[pod_class[waiting]][:, groups].sum(axis=1)
    any_of_them = waiting[takers > 0]
    placed = option.placed
    by_all = groups[admits[pod_class[placed]][:, groups].all(axis=0)]
    ways = [[(groups, _like(option.pods, any_of_them))], [(by_all, option.pods)]]
    if (takers[takers > 0] < len(groups)).any():
        ways[0].insert(0, (groups, any_of_them[np.argsort(takers[takers > 0], kind="stable")]))
    ways[0] += [(groups, pods) for pods in _bound_first(progress, ways[0][-1][1])]
    for way in ways:
        packings = [_evenly(progress, sharing, members, pods) for members, pods in way]
        good = [
            (packed, members)
            for packed, (members, _) in zip(packings, way, strict=True)
            if _is_admitted(progress, members, packed)
        ]
        good = [(growth, members) for growth, members in good if growth.placed >= option.packed.placed]
        if good:
            best, members = min(good, key=lambda growth: (-growth[0].placed, growth[0].nodes))
            return SharedGrowth(members[best.group_of].tolist(), best.pods, best.node_of)
    return None


def _evenly(progress: PlanInProgress, sharing: Sharing, members: Int64, pods: Int32) -> Packed:
    """Pack pods onto new nodes of groups, the smallest first, within limits that they have in common."""
    sizes = sharing.sizes[members] + progress.limits.added[members]
    packed = _packed(progress, members, sizes, progress.limits.may_add[members], pods)
    if _is_admitted(progress, members, packed):
        return packed
    return _packed(progress, members, sizes, split_within(progress.limits, members, sizes, packed.nodes), pods)


def _like(order: Int32, pods: Int32) -> Int32:
    """Return pods, with those in an order first, in that order."""
    return np.concatenate([order, pods[~np.isin(pods, order)]])


def _helped_out(progress: PlanInProgress, groups: Int64, option: Estimate) -> SharedGrowth | None:
    """Grow the other groups for pods that counters keep from the chosen one; None if they help no more pods."""
    state = progress.state
    kept_out = option.pods[option.packed.node_of < 0]
    if state.local_class[state.pod_class[kept_out]].all():
        return None
    sizes = np.where(np.arange(len(groups)) == 0, 0, _LAST_RESORT)
    may_add = progress.limits.may_add[groups]
    packings = [
        _packed(progress, groups, sizes, may_add, pods) for pods in (option.pods, *_bound_first(progress, option.pods))
    ]
    good = [
        packed for packed in packings if packed.placed > option.packed.placed and _is_admitted(progress, groups, packed)
    ]
    if not good:
        return None
    best = min(good, key=lambda growth: (-growth.placed, growth.nodes))
    return SharedGrowth(groups[best.group_of].tolist(), best.pods, best.node_of)


def _bound_first(progress: PlanInProgress, pods: Int32) -> list[Int32]:
    """Return pods with those first that others bind (`placement.waiting.boundness`), if that changes their order:
    unrestricted pods then fill the remaining room in every zone."""
    order = np.argsort(-progress.packer.bound[progress.state.pod_class[pods]], kind="stable")
    return [pods[order]] if (np.diff(order) < 0).any() else []


def _packed(progress: PlanInProgress, groups: Int64, sizes: Int64, max_sizes: Int64, pods: Int32) -> Packed:
    at_most = GrowingGroups(groups.tolist(), sizes.tolist(), max_sizes.tolist())
    return pack(progress.packer, at_most, pods, progress.spare_nodes_left, len(progress.group_of))


def _is_admitted(progress: PlanInProgress, groups: Int64, packed: Packed) -> bool:
    """Return whether limits that groups have in common allow the result."""
    added = np.zeros(len(progress.limits.added), np.int64)
    np.add.at(added, groups[packed.group_of], 1)
    return progress.limits.admit(added)


class PlanMode(Enum):
    """How a plan is made: for all pods at once, also with zones chosen before, or group by group."""

    WHOLE = 1
    IN_ZONES = 2
    BY_GROUP = 3


class GivenNodes(NamedTuple):
    """Nodes to open instead of choosing groups, with the destinations of all pods; unplaced, history : copied from the
    plan that they improve."""

    nodes: RepackedNodes
    unplaced: UnplacedPods
    history: PlanHistory


class PlanAttempt:
    """One attempt at the plan, with room for as many moves as the log has."""

    def __init__(
        self, context: ScaleUpContext, simulation: Simulation, variant: Variant, given_nodes: GivenNodes | None = None
    ) -> None:
        request = context.request
        self.request = request._replace(settings=replace(request.settings, expanders=variant.expanders))
        limits = context.limits
        if variant.without and given_nodes is None:
            limits = limits.closed(np.isin(np.arange(len(context.sizes)), variant.without))
        self.context = context._replace(request=self.request, limits=limits)
        self.simulation, self.given, self.variant = simulation, given_nodes, variant
        if given_nodes is None:
            self.unplaced = place_on_existing_nodes(context, simulation, variant.placement_order, variant.held_back)
        else:
            self.unplaced = place_at(context, simulation, given_nodes.unplaced, given_nodes.nodes.node)
        self.before = current_mark(simulation.state)
        self.check_room = self.unplaced.on_existing.depend_on_new_nodes(simulation)
        """Whether pods on existing and upcoming nodes are placed again once new nodes are open."""

    def kind(self) -> tuple[bytes, tuple[int, ...], bool, bool, bool, tuple[int, ...]]:
        """Return the key that shows whether this plan differs: the classes of pods that are left, the expanders, the
        order of pods, what counts for topology spread, and groups that get no node.
        """
        waiting, variant = np.concatenate([self.unplaced.waiting, self.unplaced.placeholders]), self.variant
        classes = np.sort(self.simulation.state.pod_class[waiting]).tobytes()
        expanders = self.request.settings.expanders
        return classes, expanders, variant.by_priority, variant.smallest_first, variant.new_domains, variant.without

    def run(self) -> ScaleUpPlan:
        """Return the plan; with CHEAPEST_PLAN, the plan for all pods at once, or that with zones chosen beforehand if
        it is better, which is made where the other does not hold for them.
        """
        in_order = self.variant.by_priority or self.variant.smallest_first
        by_choice = self.request.settings.expanders[0] != Expander.CHEAPEST_PLAN
        nobody = not (len(self.unplaced.waiting) or len(self.unplaced.placeholders))
        if self.given is not None or in_order or by_choice or nobody:
            return self._drafted(PlanMode.BY_GROUP)
        whole = self._drafted(PlanMode.WHOLE)
        if not self._may_need_zones(whole):
            return whole
        in_zones = self._drafted(PlanMode.IN_ZONES)
        if rating(in_zones) < rating(whole):
            return in_zones
        # Amounts released by one plan are available to the other, as far as counters allow.
        self._return_to_room()
        displaced = whole.progress.replay(np.arange(len(whole.progress.group_of)))
        return self._drafted(PlanMode.WHOLE) if len(displaced) else whole

    def _may_need_zones(self, plan: ScaleUpPlan) -> bool:
        chosen = any(choice.chosen is not None for choice in plan.history.choices)
        zones = {labels.get(ZONE_LABEL) for labels in self.context.expanders.groups.labels} - {None}
        state = self.simulation.state
        bound = len(zones) > 1 and bool(bound_by_zones(state)[state.pod_class[self.unplaced.waiting]].any())
        return (chosen or bool(len(plan.refusals.pods))) and bound and self.request.round.in_time()

    def _drafted(self, mode: PlanMode) -> ScaleUpPlan:
        self._return_to_room()
        return Draft(self, mode).run()

    def _return_to_room(self) -> None:
        """Undo all moves but those that placed pods where there was room."""
        state, existing = self.simulation.state, self.unplaced.on_existing
        if not self.check_room:
            revert(state, self.before)
            return
        revert(state, existing.start)
        for pod, node in zip(existing.pods.tolist(), existing.nodes.tolist(), strict=True):
            place(state, pod, node)


class Draft:
    """A plan in progress, starting from the state in which waiting pods were placed wherever there was room.

    choices : in order; reasons : int32[G] why a group can have no option, 0 = it can.
    """

    def __init__(self, attempt: PlanAttempt, mode: PlanMode) -> None:
        self.context, self.request = attempt.context, attempt.request
        self.unplaced, self.mode, self.given = attempt.unplaced, mode, attempt.given
        self.variant = attempt.variant
        request, context = self.request, self.context
        existing, nobody = self.unplaced.on_existing, np.zeros(0, np.int32)
        start = (
            (existing.start, existing.pods, existing.nodes) if attempt.check_room else (attempt.before, nobody, nobody)
        )
        self.progress = PlanInProgress(
            packer(attempt.simulation, request.growth), request.snapshot.groups, context.expanders.groups.labels,
            context.limits, self.unplaced.where, *start,
        )  # fmt: skip
        self.adds_no_node, self.left_without_growth = self.unplaced.pending.pods[~self.unplaced.pending.may_add], nobody
        self.sharing = Sharing(context.similarity, request.settings.balance_similar, context.sizes)
        self.planned: PlannedNodes | None = None
        self.choices: list[GroupChoice] = []
        self.out_of_time = False
        self.passed_over: set[int] = set()
        self.reasons = self.progress.limits.reasons.copy()
        if self.given is not None:
            self.planned, self.choices = self.given.history.planned, list(self.given.history.choices)
            self.reasons = self.given.history.reasons.copy()

    def run(self) -> ScaleUpPlan:
        """Make the plan, and complete it until it is valid with all its nodes present from the start."""
        progress = self.progress
        waiting = self._grow_in_turn(self._open_given(self._plan_whole(self.unplaced.waiting)))
        # Placeholders take the room that pods leave on new nodes, and only then request more nodes.
        placeholders = progress.fill(self._without_place(self.unplaced.placeholders))
        waiting = np.concatenate([waiting, self._grow(self._plan_room(placeholders))])
        refusals, settled = self._settle(self._with_those_held_back(waiting))
        history = PlanHistory(self.planned, self.choices, self._final_reasons())
        return ScaleUpPlan(self.context, self.unplaced, progress, history, refusals, settled)

    def _with_those_held_back(self, waiting: Int32) -> Int32:
        """Place the pods that were held back; return all pods that are left and for which nodes are added."""
        pods = self._without_place(self.unplaced.held_back)
        adds_no_node = np.isin(pods, self.adds_no_node)
        self.left_without_growth = self.progress.fill_other_nodes(pods[adds_no_node])
        return np.concatenate([waiting[~np.isin(waiting, pods)], self.progress.fill(pods[~adds_no_node])])

    def _settle(self, waiting: Int32) -> tuple[Refusals, bool]:
        """Add nodes for pods that are left with all new nodes present, until that changes nothing; return why the
        others are left, and whether the plan settled within SETTLING_ROUNDS rounds or nothing else helps anyway.
        """
        progress, rounds, changed = self.progress, 0, True
        while changed and rounds < SETTLING_ROUNDS:
            waiting = self._with_all_nodes(waiting)
            refusals, opened = self._refuse(waiting), len(progress.group_of)
            grown_for = self._grow(waiting[refusals.helped])
            changed = len(progress.group_of) != opened
            waiting = np.concatenate([waiting[~refusals.helped], grown_for])
            rounds += 1
        if changed:
            # The last nodes may keep pods from their places, or help others: nothing said before holds.
            refusals = self._refuse(self._with_all_nodes(waiting))
        return refusals, not (changed and refusals.helped.any())

    def _with_all_nodes(self, waiting: Int32) -> Int32:
        """Repeat all moves with all new nodes present from the start, without those that get no pods; return the pods
        that are left.
        """
        progress = self.progress
        needed, changed = np.arange(len(progress.group_of)), bool(progress.group_of)
        while changed:
            displaced = progress.replay(needed)
            adds_no_node = np.isin(displaced, self.adds_no_node)
            waiting = progress.fill(np.concatenate([waiting, displaced[~adds_no_node]]))
            self.left_without_growth = progress.fill_other_nodes(
                np.concatenate([self.left_without_growth, displaced[adds_no_node]])
            )
            needed = progress.needed()
            changed = len(needed) != len(progress.group_of)
        return waiting

    def _plan_whole(self, waiting: Int32) -> Int32:
        """Plan for all pods at once, if required; return the pods that are left."""
        progress = self.progress
        if self.mode == PlanMode.BY_GROUP:
            return waiting
        fewest_nodes, choose_zones = self.variant.fewest_nodes, self.mode == PlanMode.IN_ZONES
        opened_before = len(progress.group_of)
        until = PlanBounds(self.request.limits, self.request.round.work.time_left, self.request.settings.search)
        self.planned = plan_whole(progress, waiting, until, fewest_nodes=fewest_nodes, choose_zones=choose_zones)
        progress.open(self.planned.group_of, waiting[:0], waiting[:0])
        progress.fill_new(self._together(waiting))
        for turn in self.planned.turns():
            waits = turn & (progress.state.pod_node[self.planned.pods] == NO_NODE)
            progress.place_in_slots(self.planned.on(progress.opened[opened_before:], waits))
        return progress.fill(self._without_place(waiting))

    def _plan_room(self, placeholders: Int32) -> Int32:
        """Plan for all placeholders at once likewise, after pods; return those that are left."""
        if self.mode == PlanMode.BY_GROUP or self.given is not None or not len(placeholders):
            return placeholders
        of_pods = self.planned
        waiting = self._plan_whole(placeholders)
        self.planned = joined([plan for plan in (of_pods, self.planned) if plan is not None])
        return waiting

    def _together(self, pods: Int32) -> Int32:
        """Return those of several pods that have to be together on one node: one that no other pods fill."""
        state = self.progress.state
        of_class = state.pod_class[pods]
        counts = np.bincount(of_class, minlength=len(state.local_class))
        together: Int32 = pods[(needs_one_node(state.counters) & (counts > 1))[of_class]]
        return together

    def _open_given(self, waiting: Int32) -> Int32:
        """Open the given nodes, if any, and place the pods for them; return the pods that are left."""
        progress = self.progress
        if self.given is None:
            return waiting
        nodes = self.given.nodes
        progress.open(nodes.group_of, waiting[:0], waiting[:0])
        pods = np.concatenate([waiting, self.unplaced.placeholders])
        pods = pods[nodes.node[pods] != NO_NODE]
        if nodes.order is not None:
            pods = nodes.order[np.isin(nodes.order, pods)]
        progress.place_as_admitted(pods, nodes.node[pods])
        return progress.fill(self._without_place(waiting))

    def _without_place(self, pods: Int32) -> Int32:
        """Return the pods that are on no node; given nodes may already have some of them."""
        return unplaced(self.progress.state, pods)

    def _refuse(self, waiting: Int32) -> Refusals:
        return refuse(self.progress, waiting, self.reasons)

    def _grow_in_turn(self, waiting: Int32) -> Int32:
        """Choose groups for all pods together or, if so required, for those of one priority after the other; return
        the pods that are left.
        """
        if not self.variant.by_priority or not len(waiting):
            return self._grow(waiting)
        priority = priorities(self.progress.packer.simulation, waiting)
        lowest = np.unique(priority)[::-1][:MOST_PRIORITIES]
        turn = np.searchsorted(-lowest, -np.maximum(priority, lowest[-1]))
        return np.concatenate([self._grow(self.progress.fill(waiting[turn == at])) for at in range(len(lowest))])

    def _grow(self, waiting: Int32) -> Int32:
        """Choose groups until nothing helps; return the pods that are left."""
        progress = self.progress
        while len(waiting) and not self.out_of_time:
            state = ChoiceState(len(self.choices), self.context.sizes + progress.limits.added)
            chooser = Chooser(self.context.expanders, self.request.settings.expanders, state)
            packed_groups = self.request.settings.search.packed_groups
            inputs = EstimateInput(self._groups(), waiting, self.sharing, self.variant.smallest_first, packed_groups)
            estimated = estimates(progress, inputs, chooser, self.request.round.work.time_left)
            self.out_of_time = bool(estimated.not_evaluated)
            self.reasons[estimated.not_evaluated] = NodeGroupReason.NOT_EVALUATED
            self.passed_over.update(estimated.passed_over)
            if not estimated.options:
                break
            choice = GroupChoice(estimated.options, chooser.verdict(as_options(estimated.options)))
            self.choices.append(choice)
            for group, reason in choice.excluded().items():
                self.reasons[group] = reason
            option = choice.chosen
            if option is None:
                break
            growth = share_growth(progress, self.sharing, option, waiting, estimated.admits)
            progress.open(growth.group_of, growth.pods, growth.node_of)
            waiting = self._unplaced(waiting, growth, estimated.admits)
        return waiting

    def _final_reasons(self) -> Int32:
        """Return the reasons, including groups that were never evaluated because others were more promising."""
        looked_at = {option.group for choice in self.choices for option in choice.options}
        passed = np.array(sorted(self.passed_over - looked_at), np.int64)
        self.reasons[passed[self.reasons[passed] == 0]] = NodeGroupReason.NOT_EVALUATED
        return self.reasons

    def _groups(self) -> list[int]:
        """Return the groups that may grow."""
        may_grow = np.flatnonzero((self.progress.limits.reasons == 0) & (self.reasons != NodeGroupReason.NOT_EVALUATED))
        return may_grow.tolist()

    def _unplaced(self, waiting: Int32, opened: SharedGrowth, admits: Bool) -> Int32:
        """Return the pods that are on no node, after trying those that the new nodes may take now. int32.

        opened : the new nodes; admits : see `share_growth`. These are pods whose affinity is now satisfied, and pods
        that were not packed because the chosen group does not take them although groups that share its growth do.
        """
        state, waiting = self.progress.state, self._without_place(waiting)
        of_class = state.pod_class[waiting]
        takers = admits[:, sorted(set(opened.group_of))].sum(axis=1)
        again = (state.local_class[of_class] == 0) | ((takers[of_class] > 0) & ~np.isin(waiting, opened.pods))
        self.progress.fill(waiting[again])
        return self._without_place(waiting)
