"""Admission: which nodes of a `StartDeletion` are accepted.

Decides from the tracker's data, the limits and facts observed before; never observes anything itself. Nodes without
drain are considered first, so that a limit never makes them wait behind drains; otherwise, the request's order counts.
The nodes of a gang that moves whole are considered together, where the first of them stands: all or none.
Source: the refusals follow the Cluster Autoscaler's `RemovableAt` and budgets; `DeletionReason` in `reason.proto`.
"""

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trimtab.actuator.tracker.deletion_steps import gang_detail
from trimtab.actuator.tracker.events import PlannedNode
from trimtab.actuator.tracker.groups import least_count
from trimtab.actuator.tracker.replacement_states import DepartingNode
from trimtab.actuator.tracker.replacements import participants
from trimtab.actuator.tracker.states import HOUR_MS, NO_REASON, Deletion, NodeAnswer, Reason, State, TrackerData


class DeletionLimits(NamedTuple):
    """Bounds on what may be in progress."""

    # Most nodes being deleted at a time, with or without drain. Upstream: --max-scale-down-parallelism.
    max_parallelism: int
    # Most nodes being drained at a time. Upstream: --max-drain-parallelism.
    max_drain_parallelism: int
    # Greatest age of a plan that is carried out, by its `plan_time`, seconds.
    max_plan_age_s: float
    # How far the planner's clock may be ahead of the actuator's, seconds.
    max_clock_skew_s: float = 30.0
    # Most nodes deleted in the cloud within any hour, and the same as a share of the nodes of all groups, of their
    # least number within the hour (rounded down, but at least one). None = no limit.
    max_nodes_per_hour: int | None = None
    max_share_per_hour: float | None = None
    # Whether nodes without assumption, and requests without plan time, are refused.
    requires_assumption: bool = False
    requires_plan_time: bool = False


class NodeRequest(NamedTuple):
    """A node of a request. drain : whether pods are moved; pods_count, pods_digest : the pods that the plan moves, as
    number and digest, None = it makes no assumption; gang : that moves whole from this node and others, "" = none.
    """

    node: str
    drain: bool
    pods_count: int = 0
    pods_digest: str | None = None
    gang: str = ""


def request_of(planned: DepartingNode) -> NodeRequest:
    """Return the request to delete a node of a replacement, with what its plan assumed."""
    return NodeRequest(planned.node, planned.drain, planned.pods_count, planned.pods_digest)


class NodeFacts(NamedTuple):
    """Facts about a node. `node_group` None = in no group; `uids` are those of the pods to be moved."""

    node_group: str | None
    uids: tuple[str, ...]
    # Carries the hard taint already.
    tainted: bool = False
    # Has GPUs: a metric counts such nodes separately.
    gpu: bool = False
    # Provider id of the machine, "" = none yet, and uid of the Node object.
    provider_id: str = ""
    node_uid: str = ""
    # Set for its node group; None = not set there.
    drain_timeout_s: float | None = None


class GroupSizeFacts(NamedTuple):
    """Least and requested size of a node group, in nodes. `min_size` : the least; `target_size` : the requested."""

    min_size: int
    target_size: int


class AdmissionFacts(NamedTuple):
    """Facts observed before the decision.

    nodes : by name, one that is not there does not exist; groups : by id; pending : the nodes in progress that the
    target sizes still counted just before the sizes were read
    """

    nodes: Mapping[str, NodeFacts]
    groups: Mapping[str, GroupSizeFacts]
    pending: frozenset[str]


class Admission(NamedTuple):
    """The decision: nodes accepted, and an answer for every node, both in the request's order. `answers` : accepted or
    refused with a reason.
    """

    nodes: tuple[PlannedNode, ...]
    answers: tuple[NodeAnswer, ...]


def digest_of(uids: Iterable[str]) -> str:
    """Return `pods_to_move_digest`: 16 hex digits of SHA-256 over the sorted uids, a line feed after each."""
    return hashlib.sha256("".join(f"{uid}\n" for uid in sorted(uids)).encode()).hexdigest()[:16]


def pending_nodes(data: TrackerData) -> frozenset[str]:
    """Return nodes in progress that their group's target size still counts."""
    return frozenset(node for node, deletion in data.deletions.items() if not deletion.target_reduced)


class DecisionTime(NamedTuple):
    """Time of the decision, Unix milliseconds, and age of the plan, seconds; None = not given. `now_ms` : Unix
    milliseconds; `plan_age_s` : seconds.
    """

    now_ms: int
    plan_age_s: float | None = None


class HourlyLimit(NamedTuple):
    """The limit on nodes deleted in an hour: the count, the limit, and its reason. `most` None = no limit. The count
    includes nodes for which the cloud was called within the last hour, successfully or not, and nodes in progress for
    which it may still be called. So it is called for at most `most` nodes within any hour, however requests are spread.
    `counted` : nodes; `text` : the reason, for refusals.
    """

    counted: int
    most: int | None
    text: str

    @property
    def left(self) -> int | None:
        """Return how many more nodes may be deleted now; None = no limit."""
        return None if self.most is None else max(0, self.most - self.counted)

    @property
    def description(self) -> str:
        """Return the limit in words, for a refusal."""
        return (
            f"{self.counted} are going or went within the last hour; the access policy allows {self.most} ({self.text})"
        )


def hourly_limit(
    data: TrackerData, groups: Mapping[str, GroupSizeFacts], limits: DeletionLimits, now_ms: int
) -> HourlyLimit:
    """Return the state of the limit. For the share, nodes deleted within the hour still count, and nodes that joined
    within the hour do not.
    """
    since_ms = now_ms - HOUR_MS
    recent = [call.node for call in data.cloud_deletion_calls if call.time_ms > since_ms]
    coming = sum(
        deletion.state is not State.ROLLING_BACK and (not deletion.begun_ms or deletion.begun_ms <= since_ms)
        for deletion in data.deletions.values()
    )
    node_count = sum(group.target_size for group in groups.values())
    node_count += sum(node not in data.deletions for node in recent)
    least = least_count(data, now_ms)
    # The target sizes may be lower already.
    node_count = node_count if least is None else min(node_count, least)
    most, text = limits.max_nodes_per_hour, f"maxNodesPerHour {limits.max_nodes_per_hour}"
    share = limits.max_share_per_hour
    if share is not None:
        by_share = max(1, int(share * node_count)) if share else 0
        if most is None or by_share < most:
            most, text = by_share, f"maxSharePerHour {share:g} of {node_count} nodes"
    return HourlyLimit(len(recent) + coming, most, text)


def admit(
    data: TrackerData,
    requests: Sequence[NodeRequest],
    facts: AdmissionFacts,
    limits: DeletionLimits,
    moment: DecisionTime,
    replacement: str = "",
) -> Admission:
    """Decide on each node, without changing the data. replacement : id of the one for which this is requested."""
    counts = _InProgressCounts(data, facts, limits, moment)
    counts.taken = {node: owner for node, owner in participants(data).items() if owner != replacement}
    answers: dict[str, NodeAnswer] = {}
    planned: dict[str, PlannedNode] = {}
    for together in _together(requests):
        before = counts.copy() if len(together) > 1 else counts
        refusals = []
        for request in together:
            refusal = counts.refuse(request)
            if refusal is not None:
                refusals.append(refusal)
                continue
            planned[request.node] = _plan(request, facts)
            answers[request.node] = NodeAnswer(request.node, True, node_group=planned[request.node].node_group)
            counts.accept(planned[request.node])
        if refusals:
            counts = before
            for request in together:
                planned.pop(request.node, None)
            answers |= _refuse_all(together, refusals, answers)
    return Admission(
        nodes=tuple(planned[request.node] for request in requests if request.node in planned),
        answers=tuple(answers[request.node] for request in requests),
    )


def _together(requests: Sequence[NodeRequest]) -> list[list[NodeRequest]]:
    """Return the nodes in the order in which they are considered: those of a gang as one entry."""
    found: dict[tuple[str, str], list[NodeRequest]] = {}
    for request in sorted(requests, key=lambda w: w.drain):
        found.setdefault((request.gang, "" if request.gang else request.node), []).append(request)
    return list(found.values())


def _plan(request: NodeRequest, facts: AdmissionFacts) -> PlannedNode:
    """Return what is recorded of an accepted node."""
    seen = facts.nodes[request.node]
    return PlannedNode(
        node=request.node,
        node_group=seen.node_group or "",
        drain=request.drain,
        planned_uids=seen.uids if request.drain and request.pods_digest is not None else None,
        gpu=seen.gpu,
        provider_id=seen.provider_id,
        node_uid=seen.node_uid,
        drain_timeout_s=seen.drain_timeout_s,
        gang=request.gang,
    )


def _refuse_all(
    together: Sequence[NodeRequest], refusals: Sequence[NodeAnswer], answers: Mapping[str, NodeAnswer]
) -> dict[str, NodeAnswer]:
    """Return the answers for nodes of which some were refused, and which go together or not at all."""
    first, found = refusals[0], {refusal.node: refusal for refusal in refusals}
    for request in together:
        if request.node not in found:
            detail = gang_detail(request.gang, first.node, Reason.Name(first.reason))  # type: ignore[arg-type]
            group = answers[request.node].node_group
            found[request.node] = NodeAnswer(request.node, False, Reason.GANG_STAYS, detail, group)
    return found


class _InProgressCounts:
    """Counts of what is in progress, accepted nodes included."""

    def __init__(self, data: TrackerData, facts: AdmissionFacts, limits: DeletionLimits, moment: DecisionTime) -> None:
        self._data = data
        self._deletions: Mapping[str, Deletion] = data.deletions
        self._facts = facts
        self._limits = limits
        self._plan_age_s = moment.plan_age_s
        self._hourly = hourly_limit(data, facts.groups, limits, moment.now_ms)
        # Replacement in progress of each node that takes part in one.
        self.taken: Mapping[str, str] = {}
        self._count = len(data.deletions)
        self._drain_count = sum(deletion.drain for deletion in data.deletions.values())
        self._leaving: dict[str, int] = {}
        for node in facts.pending | pending_nodes(data):
            group = _group_of(node, data, facts)
            self._leaving[group] = self._leaving.get(group, 0) + 1

    def copy(self) -> "_InProgressCounts":
        """Return counts that change independently of these."""
        other = copy.copy(self)
        other._leaving = dict(self._leaving)
        return other

    def accept(self, planned: PlannedNode) -> None:
        self._count += 1
        self._drain_count += planned.drain
        self._hourly = self._hourly._replace(counted=self._hourly.counted + 1)
        self._leaving[planned.node_group] = self._leaving.get(planned.node_group, 0) + 1

    def refuse(self, request: NodeRequest) -> NodeAnswer | None:
        """Return the reason for refusal, or None. Permanent reasons come first."""
        for check in (
            self._refuse_plan,
            self._refuse_node,
            self._refuse_change,
            self._refuse_size,
            self._refuse_hourly,
            self._refuse_limit,
        ):
            reason, detail = check(request)
            if reason != NO_REASON:
                return NodeAnswer(request.node, False, reason, detail, _group_of(request.node, self._data, self._facts))
        return None

    def _refuse_plan(self, request: NodeRequest) -> tuple[int, str]:
        age_s, most_s = self._plan_age_s, self._limits.max_plan_age_s
        if age_s is None and self._limits.requires_plan_time:
            return Reason.PLAN_TIME_REQUIRED, "the access policy requires plan_time (requirePlanTime); give it"
        if request.pods_digest is None and self._limits.requires_assumption:
            detail = "the access policy requires the plan's assumption for each node (requireAssumption); give it"
            return Reason.ASSUMPTION_REQUIRED, detail
        if age_s is not None and age_s > most_s:
            return (
                Reason.PLAN_TOO_OLD,
                f"the plan is {age_s:.0f} s old, at most {most_s:.0f} s are accepted; plan again",
            )
        ahead_s = self._limits.max_clock_skew_s
        if age_s is not None and age_s < -ahead_s:
            detail = (
                f"the plan's time is {-age_s:.0f} s in the future, at most {ahead_s:.0f} s are accepted; check "
                "both clocks"
            )
            return Reason.PLAN_AHEAD, detail
        return NO_REASON, ""

    def _refuse_node(self, request: NodeRequest) -> tuple[int, str]:
        if request.node in self._deletions:
            return Reason.ALREADY_IN_PROGRESS, f"since request {self._deletions[request.node].request_id}"
        if request.node in self.taken:
            return Reason.ALREADY_IN_PROGRESS, f"it takes part in replacement {self.taken[request.node]}"
        seen = self._facts.nodes.get(request.node)
        if seen is None:
            return Reason.NODE_NOT_FOUND, "the cluster has no such node"
        if seen.node_group is None or seen.node_group not in self._facts.groups:
            what = "the node belongs" if seen.provider_id else "the node has no provider id yet, so it belongs"
            return Reason.NODE_GROUP_NOT_FOUND, f"{what} to no node group of the cloud"
        if seen.tainted:
            return Reason.ALREADY_IN_PROGRESS, "the node already has the taint, but not from a request known here"
        return NO_REASON, ""

    def _refuse_change(self, request: NodeRequest) -> tuple[int, str]:
        uids = self._facts.nodes[request.node].uids
        if not request.drain and uids:
            return Reason.NODE_CHANGED, f"{len(uids)} pods would have to move, but no drain was requested"
        if request.pods_digest is not None and (len(uids), digest_of(uids)) != (
            request.pods_count,
            request.pods_digest,
        ):
            return (
                Reason.NODE_CHANGED,
                f"{len(uids)} pods to move; the plan assumed {request.pods_count} or different ones",
            )
        return NO_REASON, ""

    def _refuse_size(self, request: NodeRequest) -> tuple[int, str]:
        group = self._facts.nodes[request.node].node_group or ""
        sizes, leaving = self._facts.groups[group], self._leaving.get(group, 0)
        if sizes.target_size - leaving <= sizes.min_size:
            detail = f"{group}: size {sizes.target_size}, {leaving} leaving, minimum {sizes.min_size}"
            return Reason.NODE_GROUP_MIN_SIZE_REACHED, detail
        return NO_REASON, ""

    def _refuse_hourly(self, _request: NodeRequest) -> tuple[int, str]:
        if self._hourly.most is not None and self._hourly.counted >= self._hourly.most:
            return Reason.HOURLY_LIMIT_REACHED, self._hourly.description
        return NO_REASON, ""

    def _refuse_limit(self, request: NodeRequest) -> tuple[int, str]:
        if self._count >= self._limits.max_parallelism:
            return Reason.LIMIT_EXCEEDED, f"{self._count} deletions in progress, the limit"
        if request.drain and self._drain_count >= self._limits.max_drain_parallelism:
            return Reason.LIMIT_EXCEEDED, f"{self._drain_count} drains in progress, the limit"
        return NO_REASON, ""


def _group_of(node: str, data: TrackerData, facts: AdmissionFacts) -> str:
    """Return the group of a node that is, or recently was, in progress."""
    if node in data.deletions:
        return data.deletions[node].node_group
    seen = facts.nodes.get(node)
    if seen is not None and seen.node_group is not None:
        return seen.node_group
    return next((deletion.node_group for deletion in reversed(data.finished) if deletion.node == node), "")
