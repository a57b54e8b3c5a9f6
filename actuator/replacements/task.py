"""Carries out one replacement, in steps by its stage.

Decides what the present stage requires; the tracker decides what follows from each event. Each step reads the durable
data first and may run twice: an order and a change of a size are recorded before the cloud is called, with the sizes
that they expect, and deletions are those of the tracker. Durations in seconds.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import structlog

from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.kube.cluster import (
    PREFER_NO_SCHEDULE,
    ClusterError,
    NotFoundError,
    NotLeaderError,
    RefusedError,
    TaintView,
)
from trimtab.actuator.replacements.rollback import ReplacementLook, Rollback
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.observe import observe
from trimtab.actuator.runner.tasks import TaskContext
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.admission import (
    Admission,
    AdmissionFacts,
    DecisionTime,
    DeletionLimits,
    admit,
    pending_nodes,
    request_of,
)
from trimtab.actuator.tracker.replacement_states import (
    DepartingNode,
    LeavingState,
    NewNodeState,
    ReplacementReason,
    TrackedReplacement,
    WaveStage,
)
from trimtab.actuator.tracker.replacements import TOLERANCE, Assessment, assess, own_prefix
from trimtab.actuator.tracker.states import GroupGrowth, NodeAnswer, Reason, TrackerData
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.actuator.tracker.transitions import ImpossibleEventError
from trimtab.common.kubernetes.names import SOFT_TAINT_KEY

log = structlog.get_logger("replacements")

FOR_NOW: Final = frozenset({Reason.LIMIT_EXCEEDED, Reason.HOURLY_LIMIT_REACHED})
"""Refusals that end by themselves."""
AT_ONCE: Final = 0.0


class ReplacementWork(NamedTuple):
    """What a replacement uses. `limits` : the present ones, for deletions; `not_ready_taints` : keys of further taints
    of a node that has not started.
    """

    work: TaskContext
    processor: EventProcessor
    limits: Callable[[], DeletionLimits]
    not_ready_taints: Sequence[str]


class ReplacementTask:
    """Works on one replacement until it has ended."""

    def __init__(self, request_id: str, context: ReplacementWork) -> None:
        self.name = f"replacement {request_id}"
        self._request_id = request_id
        self._context = context
        self._cluster, self._cloud = context.work.cluster, context.work.cloud
        self._look = ReplacementLook(self._cluster, self._cloud, context.not_ready_taints)
        self._rollback = Rollback(context.processor, self._cluster, self._cloud, self._look)
        self._poll_s = context.work.settings.replace.poll_s

    def step(self) -> float | None:
        """Do one step. Returns the seconds until the next one, None = the replacement has ended."""
        seen = self._context.processor.read(self._seen)
        if seen is None:
            return None
        try:
            self._context.processor.check_leading()
            return self._step(seen)
        except NotLeaderError:
            return self._poll_s
        except ImpossibleEventError as error:
            # Another event came first.
            log.warning("replacement not advanced; it is tried again", request_id=self._request_id, detail=str(error))
            return self._poll_s
        except (ClusterError, CloudError) as error:
            log.warning("replacement waits", request_id=self._request_id, stage=seen.stage.name, detail=str(error))
            return self._poll_s

    def _seen(self, tracker: Tracker, _now_ms: int) -> TrackedReplacement | None:
        return copy.deepcopy(tracker.data.replacements.get(self._request_id))

    def _step(self, seen: TrackedReplacement) -> float:
        match seen.stage:
            case WaveStage.PLANNED:
                self._mark(seen)
            case WaveStage.ORDERING:
                return self._poll_s if seen.order_open else self._order(seen)
            case WaveStage.WAITING:
                if any(node.state is NewNodeState.ORDERED for node in seen.new_nodes):
                    return self._await(seen)
                self._check(seen)
            case WaveStage.DRAINING:
                return self._drain(seen)
            case WaveStage.ROLLING_BACK:
                return AT_ONCE if self._rollback.step(seen) or self._give_back(seen) else self._poll_s
            case _:
                raise AssertionError(f"{seen.request_id}: nothing to do in stage {seen.stage.name}")
        return AT_ONCE

    def _record(self, seen: TrackedReplacement, event: e.Event) -> None:
        """Record an event if the replacement is still in the stage that was seen."""
        self._decide(seen, lambda _data, _replacement, _now_ms: event)

    def _decide(
        self,
        seen: TrackedReplacement,
        decide: Callable[[TrackerData, TrackedReplacement, int], e.Event | None],
    ) -> bool:
        """Record what `decide` returns on the present data, likewise; return whether there was something."""

        def proposal(tracker: Tracker, now_ms: int) -> e.Event | None:
            replacement = tracker.data.replacements.get(seen.request_id)
            if replacement is None or replacement.stage is not seen.stage:
                return None
            return decide(tracker.data, replacement, now_ms)

        return self._context.processor.propose(proposal) is not None

    def _mark(self, seen: TrackedReplacement) -> None:
        """Write the soft taints: a node without them is refused later, if it has changed."""
        now_s = self._context.processor.now_ms() // 1000
        for one in seen.leaving:
            try:
                self._cluster.add_taint(one.plan.node, TaintView(SOFT_TAINT_KEY, str(now_s), PREFER_NO_SCHEDULE))
            except NotFoundError:
                continue
            except RefusedError as error:
                detail = f"{one.plan.node}: {error}"
                reason = ReplacementReason.FAILED_TO_MARK_LEAVING
                self._record(seen, e.ReplacementFailed(seen.request_id, reason, detail))
                return
        self._record(seen, e.LeavingMarked(seen.request_id))

    def _order(self, seen: TrackedReplacement) -> float:
        """Order new nodes, from each group as many as it has room for; the others from an alternative."""
        wanted: dict[str, list[str]] = {}
        for node in seen.new_nodes:
            if node.state is NewNodeState.TO_ORDER:
                wanted.setdefault(node.node_group, []).append(node.name)
        views = {view.id: view for view in self._cloud.node_groups()}
        for group, names in wanted.items():
            view = views.get(group)
            room = 0 if view is None else max(0, view.max_size - view.target_size)
            if room < len(names):
                detail = f"{group}: room for {room} of {len(names)} more nodes" if view else f"{group} does not exist"
                self._record(seen, e.OrdersMissed(seen.request_id, tuple(names[room:]), detail))
                return AT_ONCE
        members = self._look.members(wanted)
        growths = tuple(
            GroupGrowth(group, views[group].target_size, views[group].target_size + len(names))
            for group, names in sorted(wanted.items())
        )
        ordering = tuple(name for group in sorted(wanted) for name in wanted[group])
        ordered = e.NodesOrdered(seen.request_id, ordering, growths, members)
        self._decide(seen, lambda _data, now, _now_ms: None if now.order_count != seen.order_count else ordered)
        return self._poll_s

    def _await(self, seen: TrackedReplacement) -> float:
        """Note nodes that have become ready, and orders that nothing will come of."""
        ordered: dict[str, list[str]] = {}
        for node in seen.new_nodes:
            if node.state is NewNodeState.ORDERED:
                ordered.setdefault(node.node_group, []).append(node.name)
        found = self._look.new_instances(seen, ordered)
        ready = [one for group, names in ordered.items() for one in found.ready.get(group, ())[: len(names)]]
        if ready:
            self._record(seen, e.NewNodesReady(seen.request_id, tuple(ready)))
            return AT_ONCE
        is_over = self._context.processor.now_ms() >= seen.deadline_ms
        troubles = self._context.processor.read(lambda t, _: {group: _trouble(t, seen, group) for group in ordered})
        for group, names in ordered.items():
            failed = found.failed.get(group, ())
            hopeless = names[::-1][: len(failed)]
            detail = failed[0] if failed else ""
            if is_over:
                hopeless, detail = names, f"{group}: not ready within {seen.ready_timeout_s:g} s {detail}".rstrip()
            elif not hopeless and troubles[group]:
                hopeless, detail = names, troubles[group]
            if hopeless:
                self._record(seen, e.OrdersMissed(seen.request_id, tuple(hopeless), detail))
                return AT_ONCE
        return self._poll_s

    def _check(self, seen: TrackedReplacement) -> None:
        """Decide, with the nodes that came, whether the drains may begin."""
        lost = self._look.lost(seen)
        if lost:
            detail = f"{lost[0].node} was ready and no longer is"
            self._record(seen, e.OrdersMissed(seen.request_id, tuple(one.name for one in lost), detail))
            return
        for node in seen.new_nodes:
            if node.state is NewNodeState.READY:
                # Empty so far, it may have been taken for an unneeded one: the pods that leave are to come here.
                self._cluster.remove_taint(node.node, SOFT_TAINT_KEY)
        plans = [one.plan for one in seen.leaving]
        facts = self._observe(plans)

        def decide(data: TrackerData, replacement: TrackedReplacement, now_ms: int) -> e.Event:
            refused = self._admit(data, plans, facts, now_ms).answers
            stays = tuple(_staying(one) for one in refused if not one.accepted and one.reason not in FOR_NOW)
            return _verdict(replacement, assess(replacement, {one.node for one in stays}), stays)

        self._decide(seen, decide)

    def _drain(self, seen: TrackedReplacement) -> float:
        """Begin the deletions that the limits allow; go on once all have ended."""
        plans = [one.plan for one in seen.leaving if one.state is LeavingState.WAITS]
        if not plans:
            if any(one.state is LeavingState.IN_DELETION for one in seen.leaving):
                return self._poll_s
            self._record(seen, e.DrainsEnded(seen.request_id))
            return AT_ONCE
        facts = self._observe(plans)

        def decide(data: TrackerData, replacement: TrackedReplacement, now_ms: int) -> e.Event | None:
            waiting = {one.plan.node for one in replacement.leaving if one.state is LeavingState.WAITS}
            admission = self._admit(data, [one for one in plans if one.node in waiting], facts, now_ms)
            # Its own drains may take all that the limits allow, however long they last.
            has_own = any(one.state is LeavingState.IN_DELETION for one in replacement.leaving)
            is_alone = not has_own and not admission.nodes
            is_late = is_alone and now_ms - replacement.stage_ms > replacement.ready_timeout_s * 1000
            stays = [one for one in admission.answers if _is_refused(one, is_late)]
            if stays:
                return e.LeavingStays(replacement.request_id, tuple(_staying(one) for one in stays))
            return self._deletion(replacement, admission, "drain")

        return AT_ONCE if self._decide(seen, decide) else self._poll_s

    def _give_back(self, seen: TrackedReplacement) -> bool:
        """Begin the deletion of new nodes that serve nothing, if they have no pods; return whether one begins."""
        names = [node.node for node in seen.ordered_nodes if node.state is NewNodeState.SURPLUS]
        plans = [DepartingNode(name, "", 0.0, drain=False) for name in names]
        if not plans:
            return False
        facts = self._observe(plans)

        def decide(data: TrackerData, replacement: TrackedReplacement, now_ms: int) -> e.Event | None:
            surplus = {node.node for node in replacement.ordered_nodes if node.state is NewNodeState.SURPLUS}
            due = [plan for plan in plans if plan.node in surplus and plan.node not in data.deletions]
            admission = self._admit(data, due, facts, now_ms)
            is_over = now_ms - replacement.stage_ms > replacement.ready_timeout_s * 1000
            is_late = is_over and not admission.nodes
            stays = [answer for answer in admission.answers if _is_refused(answer, is_late)]
            if stays:
                return e.SurplusStays(replacement.request_id, tuple(_staying(stay) for stay in stays))
            return self._deletion(replacement, admission, "back")

        return self._decide(seen, decide)

    def _observe(self, plans: Sequence[DepartingNode]) -> AdmissionFacts:
        pending = self._context.processor.read(lambda tracker, _: pending_nodes(tracker.data))
        return observe(self._context.work, [request_of(plan) for plan in plans], pending)

    def _admit(
        self, data: TrackerData, plans: Sequence[DepartingNode], facts: AdmissionFacts, now_ms: int
    ) -> Admission:
        """Decide on deletions as on those of any caller; the plan's age was checked when the replacement began, and
        what it assumes of each node is checked now.
        """
        limits = self._context.limits()._replace(requires_assumption=False)
        requests = [request_of(plan) for plan in plans]
        return admit(data, requests, facts, limits, DecisionTime(now_ms, 0.0), self._request_id)

    def _deletion(self, replacement: TrackedReplacement, admission: Admission, kind: str) -> e.SetAccepted | None:
        if not admission.nodes:
            return None
        name = f"{own_prefix(replacement.request_id)}{kind}/{replacement.deletion_count + 1}"
        answers = tuple(answer for answer in admission.answers if answer.accepted)
        timeout_s = self._context.work.settings.drain.timeout_s
        return e.SetAccepted(name, replacement.digest, admission.nodes, answers, timeout_s)


def _trouble(tracker: Tracker, seen: TrackedReplacement, group: str) -> str:
    """Return why the cloud gives no node of a group, from what has failed since the order; "" = nothing has."""
    data = tracker.data
    if group in data.backoffs:
        return f"{group} is backed off: {data.backoffs[group].detail}"
    failures = (one for one in data.group_failures.get(group, ()) if one.time_ms >= seen.ordered_ms)
    return next((f"{group}: {failure.detail}" for failure in failures), "")


def _verdict(replacement: TrackedReplacement, assessment: Assessment, stays: tuple[e.StayReason, ...]) -> e.Event:
    """Return whether the drains begin, or why not."""
    request_id = replacement.request_id
    missing = [node for node in replacement.new_nodes if node.state is NewNodeState.MISSING]
    if not assessment.leaving:
        if missing:
            detail = f"{missing[0].name}: {missing[0].detail}"
            return e.ReplacementFailed(request_id, ReplacementReason.NEW_NODES_MISSING, detail, stays)
        detail = f"{stays[0].node}: {stays[0].detail}" if stays else "no node leaves"
        return e.ReplacementFailed(request_id, ReplacementReason.LEAVING_NODES_STAY, detail, stays)
    if assessment.saving < replacement.min_saving - TOLERANCE:
        detail = f"the nodes that came save {assessment.saving:.6g} an hour, less than {replacement.min_saving:.6g}"
        return e.ReplacementFailed(request_id, ReplacementReason.SAVING_NOT_ACHIEVED, detail, stays)
    return e.DrainsAllowed(request_id, stays)


def _is_refused(answer: NodeAnswer, is_late: bool) -> bool:
    return not answer.accepted and (is_late or answer.reason not in FOR_NOW)


def _staying(answer: NodeAnswer) -> e.StayReason:
    return e.StayReason(answer.node, answer.reason, answer.detail)
