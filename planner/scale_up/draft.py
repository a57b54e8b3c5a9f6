"""One plan: choose a group, grow it, and repeat with the pods that are left; or use given new nodes.

Decides nothing about which of several plans is best (`trimtab.planner.scale_up.loop`). Leaves the simulation with the
new nodes open and all pods placed.
"""

from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.placement.orders import needs_one_node
from trimtab.planner.placement.packing import packer
from trimtab.planner.placement.waiting import priorities
from trimtab.planner.scale_up.choose import Choice, choose, excluded, rank
from trimtab.planner.scale_up.context import Context
from trimtab.planner.scale_up.estimate import EstimateBounds, EstimateInput, estimates
from trimtab.planner.scale_up.growing import Growing
from trimtab.planner.scale_up.limits import LimitInputs, Limits
from trimtab.planner.scale_up.promising import MANY
from trimtab.planner.scale_up.reasons import Refusals, refuse
from trimtab.planner.scale_up.repacking import Repacked
from trimtab.planner.scale_up.report.finding import Finding, Made, rating
from trimtab.planner.scale_up.sharing import Share, Sharing, share
from trimtab.planner.scale_up.variants import Variant
from trimtab.planner.scale_up.waiting_pods import Unserved, serve_as, serve_from_room
from trimtab.planner.scale_up.whole_plan import PlannedNodes, plan_whole
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import place, revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.simulation.state import NOWHERE
from trimtab.planner.snapshot.columns import Bool, Int32
from trimtab.v1.plan_pb2 import Expander
from trimtab.v1.reason_pb2 import NodeGroupReason

FEW: Final = 16
"""The plan for all pods at once nearly holds if at most one in this many pods is handled group by group."""
MOST_PRIORITIES: Final = 16
"""For how many priorities groups grow one after the other; pods of the lowest ones count as having the same."""
MOST_ROUNDS: Final = 8
"""How often a plan is completed if it is not valid with all its new nodes present from the start."""


class FixedNodes(NamedTuple):
    """New nodes of a plan, and the destinations of all pods. unserved, made : of the plan with other nodes."""

    nodes: Repacked
    unserved: Unserved
    made: Made


class Attempt:
    """One attempt at the plan, with room for as many moves as the log has."""

    def __init__(
        self, context: Context, simulation: Simulation, variant: Variant, given: FixedNodes | None = None
    ) -> None:
        request = context.request
        self.request = request._replace(settings=replace(request.settings, expanders=variant.expanders))
        self.context = context._replace(request=self.request)
        self.simulation, self.given, self.variant = simulation, given, variant
        if given is None:
            self.unserved = serve_from_room(context, simulation, variant.way, variant.held_back)
        else:
            self.unserved = serve_as(context, simulation, given.unserved, given.nodes.node)
        self.before = current_mark(simulation.state)
        self.check_room = self.unserved.in_room.depend_on_new_nodes(simulation)
        """Whether pods on existing and upcoming nodes are placed again once new nodes are open."""

    def kind(self) -> tuple[bytes, tuple[int, ...], bool, bool]:
        """Return the key that shows whether this plan differs: the classes of pods that are left, the expanders, and
        the order of pods.
        """
        left, variant = np.concatenate([self.unserved.left, self.unserved.placeholders]), self.variant
        classes = np.sort(self.simulation.state.pod_class[left]).tobytes()
        return classes, self.request.settings.expanders, variant.by_priority, variant.smallest_first

    def run(self) -> Finding:
        """Return the plan; with CHEAPEST_PLAN, the better one of the plan made as a whole and the plan made group by
        group.
        """
        in_order = self.variant.by_priority or self.variant.smallest_first
        by_choice = self.request.settings.expanders[0] != Expander.CHEAPEST_PLAN
        if self.given is not None or in_order or by_choice or not len(self.unserved.left):
            return self._drafted(jointly=False)
        found = self._drafted(jointly=True)
        if self.variant.fewest_nodes or self._suffices(found):
            return found
        by_group = self._drafted(jointly=False)
        if rating(by_group) < rating(found):
            return by_group
        # Amounts released by one plan are available to the other, as far as counters allow.
        self._return_to_room()
        return self._drafted(jointly=True) if len(found.growing.open_all_first()) else found

    def _suffices(self, found: Finding) -> bool:
        """Return whether no additional plan group by group is tried: for lack of time, or because there are very many
        groups and nearly all pods are on their planned nodes."""
        if not self.request.round.in_time():
            return True
        chosen = (choice.chosen for choice in found.made.choices)
        otherwise = sum(option.packed.placed for option in chosen if option is not None)
        nearly = otherwise * FEW <= len(self.unserved.left)
        return nearly and not len(found.refusals.pods) and len(found.growing.groups) > MANY

    def _drafted(self, *, jointly: bool) -> Finding:
        self._return_to_room()
        return Draft(self, jointly=jointly).run()

    def _return_to_room(self) -> None:
        """Undo all moves but those that placed pods where there was room."""
        state, room = self.simulation.state, self.unserved.in_room
        if not self.check_room:
            revert(state, self.before)
            return
        revert(state, room.start)
        for pod, node in zip(room.pods.tolist(), room.nodes.tolist(), strict=True):
            place(state, pod, node)


class Draft:
    """A plan in progress, starting from the state in which waiting pods were placed wherever there was room.

    choices : in order; reasons : int32[G] why a group can have no option, 0 = it can.
    """

    def __init__(self, attempt: Attempt, *, jointly: bool) -> None:
        self.context, self.request = attempt.context, attempt.request
        self.unserved, self.jointly, self.given = attempt.unserved, jointly, attempt.given
        self.variant = attempt.variant
        request, context = self.request, self.context
        cluster = LimitInputs(request.snapshot, context.templates, context.leaving, request.now_ns)
        limits = partial(Limits, cluster, request.round.settings.limits, request.settings.max_new_nodes)
        within = packer(attempt.simulation, request.round.growth)
        room, nobody = self.unserved.in_room, np.zeros(0, np.int32)
        start = (room.start, room.pods, room.nodes) if attempt.check_room else (attempt.before, nobody, nobody)
        self.growing = Growing(within, request.snapshot.groups, limits, self.unserved.where, *start)
        self.room_only, self.in_no_room = self.unserved.pending.pods[~self.unserved.pending.may_add], nobody
        self.sharing = Sharing(context.similarity, request.settings.balance_similar, context.sizes)
        self.planned: PlannedNodes | None = None
        self.choices: list[Choice] = []
        self.out_of_time, self.is_complete = False, True
        self.passed_over: set[int] = set()
        self.reasons = self.growing.limits.reasons.copy()
        if self.given is not None:
            self.planned, self.choices = self.given.made.planned, list(self.given.made.choices)
            self.reasons = self.given.made.reasons.copy()

    def run(self) -> Finding:
        """Make the plan, and complete it until it is valid with all its nodes present from the start."""
        growing = self.growing
        left = self._grow_in_turn(self._open_given(self._plan_whole(self.unserved.left)))
        # Placeholders take the room that pods leave on new nodes, and only then request more nodes.
        placeholders = growing.fill(self._without_place(self.unserved.placeholders))
        left = np.concatenate([left, self._grow(placeholders)])
        refusals = self._complete(self._with_those_held_back(left))
        made = Made(self.planned, self.choices, self._final_reasons())
        return Finding(self.context, self.unserved, growing, made, refusals, self.is_complete)

    def _with_those_held_back(self, left: Int32) -> Int32:
        """Place the pods that were held back; return all pods that are left and for which nodes are added."""
        pods = self.unserved.held_back
        pods = pods[self.growing.state.pod_node[pods] == NOWHERE]
        adds_no_node = np.isin(pods, self.room_only)
        self.in_no_room = self.growing.fill_room(pods[adds_no_node])
        return np.concatenate([left[~np.isin(left, pods)], self.growing.fill(pods[~adds_no_node])])

    def _complete(self, left: Int32) -> Refusals:
        """Add nodes for pods that are left with all new nodes present, up to MOST_ROUNDS times; return why the others
        are left.
        """
        growing = self.growing
        for _ in range(MOST_ROUNDS):
            left = self._with_all_nodes(left)
            refusals, opened = self._refuse(left), len(growing.group_of)
            rest = self._grow(left[refusals.helped])
            if len(growing.group_of) == opened:
                return refusals
            left = np.concatenate([left[~refusals.helped], rest])
        # The last nodes may keep pods from their places, or help others: nothing said before holds.
        refusals = self._refuse(self._with_all_nodes(left))
        self.is_complete = not refusals.helped.any()
        return refusals

    def _with_all_nodes(self, left: Int32) -> Int32:
        """Repeat all moves with all new nodes present from the start, without those that get no pods; return the pods
        that are left.
        """
        growing = self.growing
        while growing.group_of:
            displaced = growing.open_all_first()
            adds_no_node = np.isin(displaced, self.room_only)
            left = growing.fill(np.concatenate([left, displaced[~adds_no_node]]))
            self.in_no_room = growing.fill_room(np.concatenate([self.in_no_room, displaced[adds_no_node]]))
            if not growing.give_up_empty():
                break
        return left

    def _plan_whole(self, left: Int32) -> Int32:
        """Plan for all pods at once, if required; return the pods that are left."""
        growing = self.growing
        if not self.jointly:
            return left
        self.planned = plan_whole(self.context, growing, left, fewest_nodes=self.variant.fewest_nodes)
        growing.open(self.planned.group_of, left[:0], left[:0])
        growing.fill_new(self._together(left))
        waits = growing.state.pod_node[self.planned.pods] == NOWHERE
        growing.place_in_slots(self.planned.on(growing.opened, waits))
        return growing.fill(self._without_place(left))

    def _together(self, pods: Int32) -> Int32:
        """Return those of several pods that have to be together on one node: one that no other pods fill."""
        state = self.growing.state
        of_class = state.pod_class[pods]
        counts = np.bincount(of_class, minlength=len(state.local_class))
        found: Int32 = pods[(needs_one_node(state) & (counts > 1))[of_class]]
        return found

    def _open_given(self, left: Int32) -> Int32:
        """Open the given nodes, if any, and place the pods for them; return the pods that are left."""
        growing = self.growing
        if self.given is None:
            return left
        nodes = self.given.nodes
        growing.open(nodes.group_of, left[:0], left[:0])
        pods = np.concatenate([left, self.unserved.placeholders])
        pods = pods[nodes.node[pods] != NOWHERE]
        if nodes.order is not None:
            pods = nodes.order[np.isin(nodes.order, pods)]
        growing.settle(pods, nodes.node[pods])
        return growing.fill(self._without_place(left))

    def _without_place(self, pods: Int32) -> Int32:
        """Return the pods that are on no node; given nodes may already have some of them."""
        found: Int32 = pods[self.growing.state.pod_node[pods] == NOWHERE]
        return found

    def _refuse(self, left: Int32) -> Refusals:
        return refuse(self.growing, left, self.reasons)

    def _grow_in_turn(self, left: Int32) -> Int32:
        """Choose groups for all pods together or, if so required, for those of one priority after the other; return
        the pods that are left.
        """
        if not self.variant.by_priority or not len(left):
            return self._grow(left)
        priority = priorities(self.growing.within.simulation, left)
        lowest = np.unique(priority)[::-1][:MOST_PRIORITIES]
        turn = np.searchsorted(-lowest, -np.maximum(priority, lowest[-1]))
        return np.concatenate([self._grow(self.growing.fill(left[turn == at])) for at in range(len(lowest))])

    def _grow(self, left: Int32) -> Int32:
        """Choose groups until nothing helps; return the pods that are left."""
        growing = self.growing
        while len(left) and not self.out_of_time:
            shared_room = partial(self.sharing.room, growing, left)
            ranking = partial(rank, self.context, len(self.choices), growing.limits.added)
            until = EstimateBounds(self.request.round.work.time_left, ranking)
            inputs = EstimateInput(self._groups(), left, shared_room, self.variant.smallest_first)
            found = estimates(growing, inputs, until)
            self.out_of_time = bool(found.not_evaluated)
            self.reasons[found.not_evaluated] = NodeGroupReason.NOT_EVALUATED
            self.passed_over.update(found.passed_over)
            if not found.options:
                break
            choice = choose(self.context, len(self.choices), growing.limits.added, found.options)
            self.choices.append(choice)
            for group, reason in excluded(choice).items():
                self.reasons[group] = reason
            option = choice.chosen
            if option is None:
                break
            one = share(growing, self.sharing, option, left, found.admits)
            growing.open(one.group_of, one.pods, one.node_of)
            left = self._unplaced(left, one, found.admits)
        return left

    def _final_reasons(self) -> Int32:
        """Return the reasons, including groups that were never evaluated because others were more promising."""
        looked_at = {option.group for choice in self.choices for option in choice.options}
        passed = np.array(sorted(self.passed_over - looked_at), np.int64)
        self.reasons[passed[self.reasons[passed] == 0]] = NodeGroupReason.NOT_EVALUATED
        return self.reasons

    def _groups(self) -> list[int]:
        """Return the groups that may grow, no more than the settings allow to be evaluated."""
        may_grow = np.flatnonzero((self.growing.limits.reasons == 0) & (self.reasons != NodeGroupReason.NOT_EVALUATED))
        most = self.request.settings.max_evaluated_groups or len(may_grow)
        if not self.choices:
            self.reasons[may_grow[most:]] = NodeGroupReason.NOT_EVALUATED
            may_grow = may_grow[:most]
        return may_grow.tolist()

    def _unplaced(self, left: Int32, opened: Share, admits: Bool) -> Int32:
        """Return the pods that are on no node, after trying those that the new nodes may take now. int32.

        opened : the new nodes; admits : see `share`. These are pods whose affinity is now satisfied, and pods that were
        not packed because the chosen group does not take them although groups that share its growth do.
        """
        state, left = self.growing.state, self._without_place(left)
        of_class = state.pod_class[left]
        takers = admits[:, sorted(set(opened.group_of))].sum(axis=1)
        again = (state.local_class[of_class] == 0) | ((takers[of_class] > 0) & ~np.isin(left, opened.pods))
        self.growing.fill(left[again])
        return self._without_place(left)
