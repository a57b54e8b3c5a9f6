"""Which nodes of a `StartDeletion` are accepted.

Decides from the tracker's memory, the limits and facts observed beforehand; never observes. Nodes to go without drain
are looked at first, so that a limit never makes them wait behind drains; otherwise the request's order counts.
Source: the refusals follow the Cluster Autoscaler's `RemovableAt` and budgets; `DeletionReason` in `reason.proto`.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from actuator.tracker.events import PlannedNode
from actuator.tracker.states import NO_REASON, Deletion, Memory, NodeAnswer, Reason


class Limits(NamedTuple):
    """Bounds on what may be in progress."""

    # Most nodes being deleted at a time, drained or not. Upstream: --max-scale-down-parallelism.
    max_parallelism: int
    # Most nodes being drained at a time. Upstream: --max-drain-parallelism.
    max_drain_parallelism: int
    # Oldest plan that is carried out, seconds; a plan says how old it is by `plan_time`.
    max_plan_age_s: float


class NodeWish(NamedTuple):
    """A node a caller wants to go. `pods_digest` None = the plan assumed nothing."""

    node: str
    drain: bool
    pods_count: int = 0
    pods_digest: str | None = None


class NodeFacts(NamedTuple):
    """What was seen of a node. `node_group` None = of no group; `uids` = of the pods to be moved."""

    node_group: str | None
    uids: tuple[str, ...]
    # Carries the hard taint already.
    tainted: bool = False
    gpu: bool = False


class GroupFacts(NamedTuple):
    """What was seen of a node group. Sizes in nodes."""

    min_size: int
    target_size: int


class Facts(NamedTuple):
    """What was seen before the decision. A node that is not in `nodes` does not exist.

    `pending` names the nodes in progress that the target sizes did not count out yet before they were read.
    """

    nodes: Mapping[str, NodeFacts]
    groups: Mapping[str, GroupFacts]
    pending: frozenset[str]


class Admission(NamedTuple):
    """The decision: nodes accepted, and an answer for every node, both in the request's order."""

    nodes: tuple[PlannedNode, ...]
    answers: tuple[NodeAnswer, ...]


def digest_of(uids: Iterable[str]) -> str:
    """`NodeAssumption.pods_to_move_digest`: 16 hex digits of SHA-256 over the sorted uids, a line feed after each."""
    return hashlib.sha256("".join(f"{uid}\n" for uid in sorted(uids)).encode()).hexdigest()[:16]


def pending_nodes(memory: Memory) -> frozenset[str]:
    """Nodes in progress that their group's target size still counts."""
    return frozenset(node for node, deletion in memory.deletions.items() if not deletion.target_reduced)


def admit(
    memory: Memory, wishes: Sequence[NodeWish], facts: Facts, limits: Limits, plan_age_s: float | None
) -> Admission:
    """Decide on each node. `plan_age_s` None = the request did not say. Does not change the memory."""
    desk = _Desk(memory, facts, limits, plan_age_s)
    answers: dict[str, NodeAnswer] = {}
    planned: dict[str, PlannedNode] = {}
    for wish in sorted(wishes, key=lambda w: w.drain):
        refusal = desk.refuse(wish)
        if refusal is not None:
            answers[wish.node] = refusal
            continue
        seen = facts.nodes[wish.node]
        uids = seen.uids if wish.drain and wish.pods_digest is not None else None
        planned[wish.node] = PlannedNode(wish.node, seen.node_group or "", wish.drain, uids, seen.gpu)
        answers[wish.node] = NodeAnswer(wish.node, True)
        desk.accept(planned[wish.node])
    return Admission(
        nodes=tuple(planned[wish.node] for wish in wishes if wish.node in planned),
        answers=tuple(answers[wish.node] for wish in wishes),
    )


class _Desk:
    """Counts what is in progress, accepted nodes included."""

    def __init__(self, memory: Memory, facts: Facts, limits: Limits, plan_age_s: float | None) -> None:
        self._deletions: Mapping[str, Deletion] = memory.deletions
        self._facts = facts
        self._limits = limits
        self._plan_age_s = plan_age_s
        self._count = len(memory.deletions)
        self._drain_count = sum(deletion.drain for deletion in memory.deletions.values())
        self._leaving: dict[str, int] = {}
        for node in facts.pending | pending_nodes(memory):
            group = _group_of(node, memory, facts)
            self._leaving[group] = self._leaving.get(group, 0) + 1

    def accept(self, planned: PlannedNode) -> None:
        self._count += 1
        self._drain_count += planned.drain
        self._leaving[planned.node_group] = self._leaving.get(planned.node_group, 0) + 1

    def refuse(self, wish: NodeWish) -> NodeAnswer | None:
        """Say why not, or None. Reasons that waiting does not cure come first."""
        for check in (self._refuse_plan, self._refuse_node, self._refuse_change, self._refuse_size, self._refuse_limit):
            reason, detail = check(wish)
            if reason != NO_REASON:
                return NodeAnswer(wish.node, False, reason, detail)
        return None

    def _refuse_plan(self, _wish: NodeWish) -> tuple[int, str]:
        age_s, most_s = self._plan_age_s, self._limits.max_plan_age_s
        if age_s is not None and age_s > most_s:
            return Reason.PLAN_TOO_OLD, f"the plan is {age_s:.0f} s old, at most {most_s:.0f} s are accepted; plan anew"
        return NO_REASON, ""

    def _refuse_node(self, wish: NodeWish) -> tuple[int, str]:
        if wish.node in self._deletions:
            return Reason.ALREADY_IN_PROGRESS, f"since request {self._deletions[wish.node].request_id}"
        seen = self._facts.nodes.get(wish.node)
        if seen is None:
            return Reason.NODE_NOT_FOUND, "the cluster has no such node"
        if seen.node_group is None or seen.node_group not in self._facts.groups:
            return Reason.NODE_GROUP_NOT_FOUND, "the node belongs to no node group of the cloud"
        if seen.tainted:
            return Reason.ALREADY_IN_PROGRESS, "the node carries the taint already, though by no request known here"
        return NO_REASON, ""

    def _refuse_change(self, wish: NodeWish) -> tuple[int, str]:
        uids = self._facts.nodes[wish.node].uids
        if not wish.drain and uids:
            return Reason.NODE_CHANGED, f"{len(uids)} pods would have to move, and no drain was asked for"
        if wish.pods_digest is not None and (len(uids), digest_of(uids)) != (wish.pods_count, wish.pods_digest):
            return Reason.NODE_CHANGED, f"{len(uids)} pods to move; the plan assumed {wish.pods_count}, or others"
        return NO_REASON, ""

    def _refuse_size(self, wish: NodeWish) -> tuple[int, str]:
        group = self._facts.nodes[wish.node].node_group or ""
        sizes, leaving = self._facts.groups[group], self._leaving.get(group, 0)
        if sizes.target_size - leaving <= sizes.min_size:
            detail = f"{group}: size {sizes.target_size}, {leaving} leaving, minimum {sizes.min_size}"
            return Reason.NODE_GROUP_MIN_SIZE_REACHED, detail
        return NO_REASON, ""

    def _refuse_limit(self, wish: NodeWish) -> tuple[int, str]:
        if self._count >= self._limits.max_parallelism:
            return Reason.LIMIT_EXCEEDED, f"{self._count} deletions in progress, the limit"
        if wish.drain and self._drain_count >= self._limits.max_drain_parallelism:
            return Reason.LIMIT_EXCEEDED, f"{self._drain_count} drains in progress, the limit"
        return NO_REASON, ""


def _group_of(node: str, memory: Memory, facts: Facts) -> str:
    """Group of a node that is or lately was in progress."""
    if node in memory.deletions:
        return memory.deletions[node].node_group
    seen = facts.nodes.get(node)
    if seen is not None and seen.node_group is not None:
        return seen.node_group
    return next((deletion.node_group for deletion in reversed(memory.finished) if deletion.node == node), "")
