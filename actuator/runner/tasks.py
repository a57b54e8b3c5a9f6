"""The short tasks: taint a set of nodes, check an empty node, begin a deletion, roll back, scale up.

Decides only whether a step succeeded. Each may run twice. Durations in seconds.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import structlog

from trimtab.actuator.cloud.provider import (
    CloudError,
    CloudFailedError,
    CloudProvider,
    CloudRefusedError,
    SizeChangedError,
)
from trimtab.actuator.drain.drain import NodeDrain, NodeReplacedError, TaintGuard
from trimtab.actuator.drain.pods import DaemonEvictor, EvictionCounter, EvictionOrder, daemons_to_evict, pods_to_move
from trimtab.actuator.kube.cluster import ClusterApi, ClusterError, NotFoundError, PodView, hard_taint
from trimtab.actuator.settings import WorkSettings
from trimtab.actuator.steady_time import SteadyTime
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker import instructions as i
from trimtab.actuator.tracker.events import EventRecorder
from trimtab.actuator.tracker.states import GroupGrowth, GrowthAnswer, GrowthReason, Reason
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

log = structlog.get_logger("runner")


class TaskContext(NamedTuple):
    """What all tasks use: the cluster, the cloud, the recorder of events, and the settings of work."""

    cluster: ClusterApi
    cloud: CloudProvider
    recorder: EventRecorder
    settings: WorkSettings
    # Counts an eviction request in the metrics.
    on_eviction: EvictionCounter


class TaintTask:
    """Taints all nodes of a request; the first node that cannot be tainted fails the set."""

    def __init__(self, instruction: i.WriteTaints, context: TaskContext) -> None:
        self.name = f"taint {instruction.request_id}"
        self._instruction = instruction
        self._context = context

    def step(self) -> None:
        """Write the taints."""
        context, request_id = self._context, self._instruction.request_id
        with ThreadPoolExecutor(context.settings.taint_thread_count, thread_name_prefix="taint") as pool:
            failures = [
                (node, detail)
                for node, detail in zip(
                    self._instruction.nodes,
                    pool.map(self._taint, self._instruction.nodes, self._instruction.uids),
                    strict=True,
                )
                if detail
            ]
        if failures:
            context.recorder.submit(e.SetFailed(request_id, *failures[0]))
        else:
            context.recorder.submit(e.SetTainted(request_id))

    def _taint(self, node: str, uid: str) -> str:
        """Write one taint; return the error, "" = the taint is there."""
        context = self._context
        taint = hard_taint(context.recorder.now_ms())
        try:
            context.cluster.add_taint(node, taint, uid)
        except ClusterError as error:
            return str(error) or type(error).__name__
        return ""


class CheckEmptyTask:
    """Checks that a node to be deleted without drain has no pod to move."""

    def __init__(self, instruction: i.CheckEmpty, context: TaskContext) -> None:
        self.name = f"check {instruction.node}"
        self._node = instruction.node
        self._context = context
        settle_s = context.settings.delay_after_taint_s
        self._taint = TaintGuard(
            context.cluster,
            context.recorder,
            instruction.node,
            instruction.node_uid,
            settle_s,
            instruction.taint_restored,
        )
        # Setting the wall clock forward must not make a pod overdue.
        self._time = SteadyTime(context.recorder.now_ms, context.recorder.steady_ms)
        # Held during a step.
        self._lock = threading.Lock()
        self._ended = False

    def end(self) -> None:
        """Stop, and wait for the running step; after that, the task changes the node no more."""
        with self._lock:
            self._ended = True

    def step(self) -> float | None:
        """List the pods; if there is none to move, evict DaemonSet pods if the settings require it."""
        with self._lock:
            return None if self._ended else self._step()

    def _step(self) -> float | None:
        cluster, recorder, settings = self._context.cluster, self._context.recorder, self._context.settings.drain
        try:
            self._taint.keep()
            found = cluster.list_pods(self._node)
            pods = pods_to_move(found, self._time.earliest_ms(), settings.expendable_priority)
        except NotFoundError:
            recorder.submit(e.NodeGone(self._node))
            return None
        except NodeReplacedError as error:
            recorder.submit(e.DeletionFailed(self._node, Reason.NODE_CHANGED, str(error)))
            return None
        except ClusterError as error:
            log.warning("check waits", node=self._node, detail=str(error))
            return self._context.settings.rollback_retry_s
        if pods:
            keys = tuple(pod.key for pod in pods)
            detail = f"{len(pods)} pods appeared after the node was tainted, such as {keys[0]}"
            recorder.submit(e.DeletionFailed(self._node, Reason.NODE_CHANGED, detail, keys))
        elif settling_s := self._taint.settling_s():
            return settling_s
        else:
            self._evict_daemons(daemons_to_evict(found, settings.evict_daemons_empty))
            recorder.submit(e.NodeEmpty(self._node))
        return None

    def _evict_daemons(self, daemons: list[PodView]) -> None:
        cluster, settings = self._context.cluster, self._context.settings.drain
        order = EvictionOrder(settings.priority_groups, settings.max_graceful_termination_s)
        evictor = DaemonEvictor(cluster, order, settings.eviction_retry_s, self._context.on_eviction)
        evictor.evict(daemons, self._context.recorder.steady_ms())


class BeginDeleteTask:
    """Records that the deletion is about to be requested from the cloud."""

    def __init__(self, instruction: i.BeginDelete, context: TaskContext) -> None:
        self.name = f"begin deletion of {instruction.node}"
        self._node = instruction.node
        self._recorder = context.recorder

    def step(self) -> None:
        """Record that the cloud is about to be called."""
        self._recorder.submit(e.DeleteBegun(self._node))


class RollBackTask:
    """Removes a node's taint once the work on it has stopped, and retries until it succeeds."""

    def __init__(self, instruction: i.RollBack, work: NodeDrain | CheckEmptyTask | None, context: TaskContext) -> None:
        self.name = f"roll back {instruction.node}"
        self._node, self._uid = instruction.node, instruction.node_uid
        self._uncordon = instruction.drained_by_caller
        self._work = work
        self._context = context

    def step(self) -> float | None:
        """Try the roll-back."""
        try:
            if self._work is not None:
                self._work.end()
                self._work = None
            self._context.cluster.remove_taint(self._node, HARD_TAINT_KEY, self._uncordon, self._uid)
        except NotFoundError:
            log.info("no roll-back needed, the node is gone or was replaced", node=self._node)
        except ClusterError as error:
            log.warning("roll-back waits", node=self._node, detail=str(error))
            return self._context.settings.rollback_retry_s
        self._context.recorder.submit(e.RolledBack(self._node))
        return None


class GrowTask:
    """Requests scale-ups and reductions from the cloud, each once, and repeats until the result of each is known."""

    def __init__(self, instruction: i.Grow, context: TaskContext) -> None:
        self.name = f"grow {instruction.request_id}"
        self._instruction = instruction
        self._context = context
        self._answers: dict[int, GrowthAnswer] = {}
        age_ms = max(0, context.recorder.now_ms() - instruction.since_ms)
        self._until_ms = context.recorder.steady_ms() + int(context.settings.grow.timeout_s * 1000) - age_ms

    def step(self) -> float | None:
        """Request each scale-up that is not answered yet. None = all are answered."""
        growths = self._instruction.growths
        for position, growth in enumerate(growths):
            if position in self._answers:
                continue
            token = f"{self._instruction.request_id}/{position}"
            try:
                self._answers[position] = self._grow(growth, token)
            except CloudError as error:
                log.warning(
                    "growth waits", group=growth.node_group, request_id=self._instruction.request_id, detail=str(error)
                )
        if len(self._answers) < len(growths):
            return self._context.settings.grow.retry_s
        answers = tuple(self._answers[position] for position in range(len(growths)))
        self._context.recorder.submit(e.GrowthAnswered(self._instruction.request_id, answers))
        return None

    def _grow(self, growth: GroupGrowth, token: str) -> GrowthAnswer:
        """Request one change of a size; after the deadline, only read its result. Raises `CloudError` if there is no
        answer.
        """
        cloud, group = self._context.cloud, growth.node_group
        try:
            if growth.is_reduction:
                return self._lower(growth)
            if self._context.recorder.steady_ms() <= self._until_ms:
                cloud.set_size(group, growth.expected, growth.wanted, token)
            elif not cloud.was_set(group, growth.wanted, token):
                detail = (
                    f"the cloud has not completed it within {self._context.settings.grow.timeout_s:g} s; plan again"
                )
                return GrowthAnswer(group, False, detail, GrowthReason.NOT_CARRIED_OUT)
        except SizeChangedError as error:
            return GrowthAnswer(group, False, str(error), GrowthReason.SIZE_CHANGED)
        except CloudRefusedError as error:
            return GrowthAnswer(group, False, str(error), GrowthReason.REFUSED)
        except CloudFailedError as error:
            return GrowthAnswer(group, False, str(error), GrowthReason.NOT_CARRIED_OUT)
        return GrowthAnswer(group, True)

    def _lower(self, growth: GroupGrowth) -> GrowthAnswer:
        """Request one reduction, which a cloud at the wanted size has carried out. Raises `CloudError`."""
        if self._context.recorder.steady_ms() > self._until_ms:
            detail = f"the cloud has not answered within {self._context.settings.grow.timeout_s:g} s; plan again"
            return GrowthAnswer(growth.node_group, False, detail, GrowthReason.NOT_CARRIED_OUT)
        self._context.cloud.decrease_target(growth.node_group, growth.expected, growth.wanted)
        return GrowthAnswer(growth.node_group, True)
