"""The plan in progress: new nodes opened in the simulation, and pods placed on them.

Every step keeps three things consistent: the open nodes of the simulation, the list kept here, and the counts of the
limits.

Why no node group helps a pod is checked on one more new node of each group with the plan carried out. Failed predicates
come first, as more nodes would not help; then back-off, health and limits of the group.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.values import FOLLOWS, LEADS, NodeGroupInfo
from trimtab.planner.new_nodes.demand_sets import NOBODY, Reach
from trimtab.planner.new_nodes.whole_problem import RoomToGrow
from trimtab.planner.placement.kernels.packing import refusals
from trimtab.planner.placement.kernels.search import Search, place_all
from trimtab.planner.placement.limits import Limits
from trimtab.planner.placement.packing import Packer, PodsInSlots, place_in_slots, place_on_new_nodes
from trimtab.planner.placement.waiting import Places
from trimtab.planner.predicates.counters import is_unlike_its_class
from trimtab.planner.predicates.order import REASONS
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.growth import SPARE
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import check_log, commit, current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Int32, Int64, UInt8
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason, PredicateReason


class Checkpoint(NamedTuple):
    """A plan in progress to which one may go back. mark : in the log of moves; others as in `PlanInProgress`."""

    mark: int
    pods: Int32
    nodes: Int32
    group_of: tuple[int, ...]
    limits: Limits


@dataclass
class PlanInProgress:
    """packer : simulation and virtual nodes; groups : of the snapshot; labels : of a new node of each group; limits :
    what groups may still get; other_nodes : existing and upcoming nodes where pods may be placed; start : mark from
    which `replay` repeats the moves; pods, nodes : int32 pods placed since then, in order, and int32 the node of each;
    group_of : group of each new node, in the order of opening; committed : how many of these stay in any case; reach :
    where pods are placed without a given node, None = everywhere.
    """

    packer: Packer
    groups: Sequence[NodeGroupInfo]
    labels: Sequence[Mapping[str, str]]
    limits: Limits
    other_nodes: Places
    start: int = 0
    pods: Int32 = field(default_factory=lambda: NOBODY)
    nodes: Int32 = field(default_factory=lambda: NOBODY)
    group_of: list[int] = field(default_factory=list)
    committed: int = 0
    reach: Reach | None = None

    def __post_init__(self) -> None:
        self._limits_at_start, self.limits = self.limits, self.limits.copy()
        self.is_atomic: Bool = np.array([group.zero_or_max for group in self.groups], bool)
        """bool[G] all-or-nothing groups."""
        self._no_hints = np.full(len(self.state.pod_node), NO_NODE, np.int32)
        self._destination, self._allowed = self._no_hints.copy(), np.ones(len(self.state.node_state), bool)

    def checkpoint(self) -> Checkpoint:
        """Return the plan as it is, to go back to."""
        return Checkpoint(current_mark(self.state), self.pods, self.nodes, tuple(self.group_of), self.limits.copy())

    def commit(self) -> None:
        """Keep everything for good: the log of moves begins anew."""
        check_log(self.state)
        commit(self.state)
        self.start, self.pods, self.nodes, self.committed = 0, NOBODY, NOBODY, len(self.group_of)
        self._limits_at_start = self.limits.copy()

    @contextmanager
    def within(self, reach: Reach) -> Iterator[None]:
        """Let pods be placed, and groups grow, only within reach meanwhile."""
        before, self.reach, self.limits = self.limits, reach, self.limits.closed(~reach.groups)
        try:
            yield
        finally:
            self.reach, self.limits = None, self.limits.reopened(before)

    def return_to(self, before: Checkpoint) -> None:
        """Undo everything since a checkpoint."""
        revert(self.state, before.mark)
        self.pods, self.nodes = before.pods, before.nodes
        self.group_of, self.limits = list(before.group_of), before.limits.copy()

    @property
    def state(self) -> SimulationState:
        """The simulation's state."""
        return self.packer.simulation.state

    @property
    def opened(self) -> Int64:
        """The new nodes. int64."""
        return self.packer.growth.spare_nodes[: len(self.group_of)]

    @property
    def spare_nodes_left(self) -> int:
        """How many more nodes can be opened."""
        return max(len(self.packer.growth.spare_nodes) - SPARE - len(self.group_of), 0)

    @property
    def may_add(self) -> Int64:
        """How many nodes each group may get now: within its limits and the nodes that can be opened; an all-or-nothing
        group all of them or none. int64[G].
        """
        may_add, spare = self.limits.may_add, self.spare_nodes_left
        return np.where(self.is_atomic & (may_add > spare), 0, np.minimum(may_add, spare))

    @property
    def room_to_grow(self) -> RoomToGrow:
        """What groups may still get."""
        room = self.limits.may_add, self.spare_nodes_left, len(self.group_of)
        return RoomToGrow(self.packer, self.groups, self.labels, *room)

    @property
    def spare(self) -> int:
        """A spare node that is never opened permanently."""
        return int(self.packer.growth.spare_nodes[-1])

    def open(self, group_of: Sequence[int], pods: Int32, node_of: Int32) -> Int32:
        """Open one node for each entry of `group_of` and place pods there, node_of : int32[M] as in `Packed`.

        Returns the pods that are on no node. int32.
        """
        placed = place_on_new_nodes(self.packer, group_of, pods, node_of, len(self.group_of))
        self._count_nodes(group_of)
        self.group_of.extend(group_of)
        self._note(pods[placed >= 0])
        return pods[placed < 0]

    def needed(self) -> Int64:
        """Return the new nodes that have pods, and those of all-or-nothing groups of which any has, as positions in
        `group_of`. int64.
        """
        used = np.isin(self.opened, self.nodes)
        used[: self.committed] = True
        group_of = np.array(self.group_of, np.int64)
        return np.flatnonzero(used | (self.is_atomic[group_of] & np.isin(group_of, group_of[used])))

    def replay(self, nodes: Int64) -> Int32:
        """Undo everything since `start`, and redo it with these new nodes only, all of them open from the start.

        This is how the scheduler may see them, as nodes come in any order. nodes : int64 positions in `group_of`,
        ascending; the others have no pods. Returns the pods that no longer fit their nodes. int32.
        """
        self._drop_all_but(nodes)
        pods, on = self.pods, self.nodes
        revert(self.state, self.start)
        place_on_new_nodes(self.packer, self.group_of[self.committed :], pods[:0], pods[:0], self.committed)
        self.pods, self.nodes = pods[:0], on[:0]
        return self.place_as_admitted(pods, on)

    def _drop_all_but(self, nodes: Int64) -> None:
        """Remove all other new nodes from the lists, and renumber those that stay."""
        if len(nodes) == len(self.group_of):
            return
        spare_nodes = self.packer.growth.spare_nodes
        moved_to = np.arange(int(spare_nodes.max(initial=0)) + 1, dtype=np.int32)
        moved_to[self.opened[nodes]] = spare_nodes[: len(nodes)]
        is_virtual = self.nodes < len(moved_to)
        self.nodes[is_virtual] = moved_to[self.nodes[is_virtual]]
        self.group_of = np.array(self.group_of, np.int64)[nodes].tolist()
        self.limits = self._limits_at_start.copy()
        self._count_nodes(self.group_of[self.committed :])

    def _count_nodes(self, group_of: Sequence[int]) -> None:
        for group, count in sorted(Counter(group_of).items()):
            self.limits.count_nodes(group, count)

    def fill(self, pods: Int32) -> Int32:
        """Place pods wherever a node admits them, new ones first; return those that find no place. int32."""
        return self._place(pods, NOBODY, np.concatenate([self.new_nodes, self.others]))

    def fill_new(self, pods: Int32) -> Int32:
        """Place pods on new nodes that admit them; return those that find no place. int32."""
        return self._place(pods, NOBODY, self.new_nodes)

    def fill_others_first(self, pods: Int32) -> Int32:
        """Place pods wherever a node admits them, new ones last; return those that find no place. int32."""
        return self._place(pods, NOBODY, np.concatenate([self.others, self.new_nodes]))

    def fill_other_nodes(self, pods: Int32) -> Int32:
        """Place pods wherever a node that is not new admits them; return those that find no place. int32."""
        return self._place(pods, NOBODY, self.others)

    def fill_in_passes(self, pods: Int32, nodes: Int32) -> Int32:
        """Place pods on nodes : int32 that admit them, those that are left again as long as others are placed; return
        those that find no place. int32."""
        waiting, before = pods, -1
        while len(waiting) not in {0, before}:
            # Pods placed since may satisfy an affinity or a spread constraint.
            before, waiting = len(waiting), self._place(waiting, NOBODY, nodes)
        return waiting

    @property
    def new_nodes(self) -> Int32:
        """The new nodes within reach. int32."""
        if self.reach is None:
            return self.opened.astype(np.int32)
        return self.opened[self.reach.groups[np.array(self.group_of, np.int64)]].astype(np.int32)

    @property
    def others(self) -> Int32:
        """The other nodes within reach. int32."""
        order = self.other_nodes.order
        return order if self.reach is None else order[self.reach.nodes[order]]

    def place_in_slots(self, pods: PodsInSlots) -> None:
        """Place pods on the nodes on which there is a slot for them, if the nodes admit them."""
        self._note(place_in_slots(self.state, pods))

    def place_as_admitted(self, pods: Int32, nodes: Int32) -> Int32:
        """Place pods : int32[M] on nodes : int32[M], each as soon as its node admits it; return those left. int32."""
        target = np.full(len(self.state.pod_node), NO_NODE, np.int32)
        target[pods] = nodes
        waiting, before = self._place(pods, nodes, pods[:0]), -1
        while len(waiting) not in {0, before}:
            # Pods placed since may satisfy an affinity or a spread constraint.
            before = len(waiting)
            waiting = self._place(waiting, target[waiting], pods[:0])
        return waiting

    def _place(self, pods: Int32, nodes: Int32, order: Int32) -> Int32:
        """Place pods : int32[M] on nodes : int32[M], if given, else on the first in `order` that admits them."""
        if not len(pods):
            return pods
        state, hint = self.state, self._no_hints
        if len(nodes):
            hint = hint.copy()
            hint[pods] = nodes
        search = Search(order, self._allowed, *np.zeros((2, len(state.local_class)), np.int64))
        place_all(state, search, hint, self._destination, np.zeros(2, np.int64), pods, False)
        there = state.pod_node[pods] != NO_NODE
        self._note(pods[there])
        waiting: Int32 = pods[~there]
        return waiting

    def _note(self, pods: Int32) -> None:
        """Record placed pods."""
        self.pods = np.concatenate([self.pods, pods])
        self.nodes = np.concatenate([self.nodes, self.state.pod_node[pods].astype(np.int32)])


def write_splits(progress: PlanInProgress, decision: pb.ScaleUpDecision | pb.CapacityRequestsDecision) -> None:
    """Add the groups that grow to a decision, by id, and their price."""
    groups, counts = np.unique(np.array(progress.group_of, np.int64), return_counts=True)
    for group, count in zip(groups.tolist(), counts.tolist(), strict=True):
        row = progress.groups[group]
        price = None if np.isnan(row.price_per_hour) else row.price_per_hour * count
        decision.splits.add(
            node_group=row.id,
            current_size=row.target_size,
            new_size=row.target_size + count,
            max_size=row.max_size,
            price_per_hour=price,
        )
        decision.price_per_hour += price or 0.0


_NOT_WITH_LEADER: Final = 1 << PredicateReason.CLAIM_ALLOCATED_ELSEWHERE
_FIRST: Final = (NodeGroupReason.NO_TEMPLATE, NodeGroupReason.NODE_GROUP_INVALID)
"""Reasons for which nothing, or nothing reliable, is known about a new node."""


class Refusals(NamedTuple):
    """Why pods are left, by kind of pod: pods of one kind get the same answer.

    pods : int32[M]; kind : int64[M]; reason : uint8[kinds, G] `NodeGroupReason.Code`; predicate : uint8[kinds, G]
    `PredicateReason.Code` with PREDICATE_FAILED; helped : bool[M] a group that may grow admits the pod.
    """

    pods: Int32
    kind: Int64
    reason: UInt8
    predicate: UInt8
    helped: Bool


def refuse(progress: PlanInProgress, pods: Int32, excluded: Int32) -> Refusals:
    """Return why no group helps pods : int32[M], which are on no node. O(kinds · groups · terms).

    excluded : int32[G] why a group could have no option, 0 = it could.
    """
    state, limits, count = progress.state, progress.limits, len(progress.groups)
    alone = is_unlike_its_class(state.counters, pods) | (state.pinned[pods] != -1)
    # A pod with volumes is a kind of its own.
    kinds, first, kind = np.unique(
        np.where(alone, -1 - pods.astype(np.int64), state.pod_class[pods]), return_index=True, return_inverse=True
    )
    masks = np.zeros((len(kinds), count), np.int64)
    if count and len(pods):
        templates = progress.packer.growth.template_node
        refusals(state, progress.spare, templates, pods[first], masks)
        followed = _leaders(progress.packer.simulation, pods[first])
        if (follows := np.flatnonzero(followed >= 0)).size:
            # All pods that share a claim go to one node: what keeps the one out that leads keeps all out.
            led = np.zeros((len(follows), count), np.int64)
            refusals(state, progress.spare, templates, followed[follows], led)
            masks[follows] = (masks[follows] & ~_NOT_WITH_LEADER) | led
    now = limits.reasons
    own = np.where(now != 0, now, excluded).astype(np.uint8)
    reason = np.broadcast_to(own, masks.shape).copy()
    failed = (masks > 0) & ~np.isin(own, _FIRST)
    reason[failed] = NodeGroupReason.PREDICATE_FAILED
    reason[reason == 0] = NodeGroupReason.NOT_EVALUATED
    helped = ((now == 0) & (masks == 0)).any(axis=1)
    return Refusals(pods, kind.reshape(-1), reason, first_predicate(masks) * failed, helped[kind.reshape(-1)])


def _leaders(simulation: Simulation, pods: Int32) -> Int32:
    """Return for each of pods : int32[M] the one that it follows because of a claim that they share, if that is on no
    node, -1 = none. int32[M]."""
    out, snapshot, placed = np.full(len(pods), -1, np.int32), simulation.snapshot, simulation.state.pod_node
    if snapshot.devices.is_empty:
        return out
    claims = [spec.claims for spec in snapshot.specs]
    leading = {claim.shared: at for at, of in enumerate(claims) for claim in of if claim.together == LEADS}
    if not leading:
        return out
    spec_of = snapshot.pods.spec
    for at, pod in enumerate(pods.tolist()):
        for claim in claims[spec_of[pod]] if pod < simulation.pod_count else ():
            if claim.together == FOLLOWS:
                leader = int(np.flatnonzero(spec_of == leading[claim.shared])[0])
                out[at] = leader if placed[leader] < 0 else -1
    return out


def first_predicate(masks: Int64) -> UInt8:
    """Return the first reason of each mask `1 << PredicateReason.Code`, in the scheduler's order."""
    predicate = np.zeros(masks.shape, np.uint8)
    for code in reversed(REASONS):
        predicate[(masks >> code) & 1 == 1] = code
    return predicate


OF_GROUP: Final = {
    NodeGroupReason.MAX_SIZE_REACHED: "at the maximum size",
    NodeGroupReason.RESOURCE_LIMIT_REACHED: "prevented from growing by the limit on {resource}",
    NodeGroupReason.MAX_NEW_NODES_REACHED: "skipped because the plan already adds the maximum number of nodes",
    NodeGroupReason.BACKED_OFF: "in back-off after a scale-up that failed",
    NodeGroupReason.UNHEALTHY: "unhealthy",
    NodeGroupReason.NO_TEMPLATE: "without template and without nodes",
    NodeGroupReason.NOT_WHOLE: "unable to grow as a whole",
    NodeGroupReason.NOT_CHOSEN: "not chosen by an expander",
    NodeGroupReason.PRICE_UNKNOWN: "without a price",
    NodeGroupReason.PRIORITY_INVALID: "with a priority that is not a number",
    NodeGroupReason.NODE_GROUP_INVALID: "with contradictory values",
    NodeGroupReason.NOT_EVALUATED: "not evaluated",
    NodeGroupReason.GANG_INCOMPLETE: "of use only if the pod's gang could be whole",
}
"""What is said of a group that does not help."""
_OF_GROWN_GROUP: Final = {
    NodeGroupReason.MAX_SIZE_REACHED: "filled by this plan up to the maximum size",
    NodeGroupReason.RESOURCE_LIMIT_REACHED: "filled by this plan as far as the limit on {resource} allows",
    NodeGroupReason.MAX_NEW_NODES_REACHED: "filled by this plan, which already adds the maximum number of nodes",
}
"""Of a group that this plan grows for other pods."""


class GrowthInPlan(NamedTuple):
    """What a plan adds. growing : ids of the node groups that grow; limits : by group, the resource whose limit keeps
    it from growing further."""

    growing: Set[str]
    limits: Mapping[str, str]


def why_pending(reasons: Mapping[str, int], failed: Mapping[str, int], growth: GrowthInPlan) -> str:
    """Return the sentence. reasons : `NodeGroupReason.Code` by node group; failed : `PredicateReason.Code` likewise.

    The most frequent reason comes first.
    """
    if not reasons:
        return "there is no node group"
    texts, is_full = Counter[str](), False
    for group, reason in sorted(reasons.items()):
        if group in failed:
            texts[PREDICATE_TEXTS[failed[group]].on_new_node] += 1
            continue
        full = _OF_GROWN_GROUP.get(reason) if group in growth.growing else None  # type: ignore[call-overload]
        is_full |= full is not None
        texts[(full or OF_GROUP[reason]).format(resource=growth.limits.get(group, "resources"))] += 1  # type: ignore[index]
    many = len(reasons)
    parts = (
        f"{count} of {many}: {text}" for text, count in sorted(texts.items(), key=lambda entry: (-entry[1], entry[0]))
    )
    return f"{'no node group has room left' if is_full else 'no node group helps'} ({', '.join(parts)})"
