"""The drain of one node, in steps, and the hard taint that is kept on the node while it is drained or checked.

Decides when the eviction of each pod is requested: a refused eviction is retried until the drain's deadline. The pods
are recorded before the first eviction, and each eviction before the next one, so a restart neither forgets nor repeats
any. Never deletes a pod. Changes nothing of the node but the taint, which it restores if another client removed it.
Times are milliseconds of the steady clock: a jump of the wall clock neither ends a drain early nor prolongs a pause.
Times of pods are Unix milliseconds. Durations in seconds.
"""

import threading

import structlog

from trimtab.actuator.drain.pods import (
    LONGEST_HINT_S,
    DaemonEvictor,
    EvictionCounter,
    EvictionOrder,
    daemons_to_evict,
    pod_ref,
    pods_to_move,
)
from trimtab.actuator.kube.cluster import (
    ClusterApi,
    ClusterError,
    NotFoundError,
    PodView,
    TooManyRequestsError,
    hard_taint,
)
from trimtab.actuator.settings import DrainSettings
from trimtab.actuator.steady_time import SteadyTime
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.events import EventRecorder, TaintRestored
from trimtab.actuator.tracker.instructions import Drain
from trimtab.actuator.tracker.states import PodRef, Reason
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

ANOTHER_NODE = "the node was replaced by another one of its name"

log = structlog.get_logger("drain")
# Growth of the pause between steps without progress.
PAUSE_GROWTH = 1.5
# How often the node itself is read; its pods are read more often.
NODE_LOOK_MS = 10_000
# Longest text of a refusal that is kept.
REFUSAL_LENGTH = 300


class NodeReplacedError(Exception):
    """Another node has the name by now: neither it nor its pods belong to the deletion."""

    def __init__(self) -> None:
        super().__init__(ANOTHER_NODE)


class TaintGuard:
    """The taint of one node. `uid` "" = not known, then the name decides; `settle_s` : time in which the scheduler
    reads a taint; `was_restored` : an earlier run restored it, at a time that is not known.
    """

    def __init__(
        self,
        cluster: ClusterApi,
        recorder: EventRecorder,
        node: str,
        uid: str,
        settle_s: float,
        was_restored: bool = False,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._node, self._uid = node, uid
        self._settle_ms = int(settle_s * 1000)
        # Until when pods may come after the taint was restored; None = it was there.
        self._settled_ms = recorder.steady_ms() + self._settle_ms if was_restored else None

    @property
    def was_restored(self) -> bool:
        """Return whether the taint was missing at any time."""
        return self._settled_ms is not None

    def keep(self, from_cache: bool = False) -> None:
        """Restore the taint if it is missing. `from_cache` : read the server's cache, which may be older.

        Raises `NotFoundError` when the node is gone, `NodeReplacedError`, `ClusterError`, and as the recorder does.
        """
        node = self._cluster.get_node(self._node, from_cache=from_cache)
        if self._uid and node.uid != self._uid:
            raise NodeReplacedError
        if node.taint(HARD_TAINT_KEY) is not None:
            return
        log.warning("another client removed the taint; it is restored", node=self._node)
        if not self.was_restored:
            # First: a process that ended after the taint was written would not know that it was away.
            self._recorder.submit(TaintRestored(self._node))
        self._cluster.add_taint(self._node, hard_taint(self._recorder.now_ms()), self._uid)
        self._settled_ms = self._recorder.steady_ms() + self._settle_ms

    def settling_s(self) -> float:
        """Return for how long pods may still come after the taint was restored; 0 = no longer."""
        if self._settled_ms is None:
            return 0.0
        return max(0, self._settled_ms - self._recorder.steady_ms()) / 1000


class NodeDrain:
    """A `Task` that drains one node. `on_eviction` counts the result of each request."""

    def __init__(
        self,
        instruction: Drain,
        cluster: ClusterApi,
        recorder: EventRecorder,
        settings: DrainSettings,
        on_eviction: EvictionCounter,
        delay_after_taint_s: float,
    ) -> None:
        self.node = instruction.node
        self.name = f"drain {instruction.node}"
        # Held during a step: whoever holds it after `cancel` knows that no eviction is running.
        self.lock = threading.Lock()
        self._cancelled = False
        self._waits_for_gang = instruction.waits_for_gang
        self._cluster = cluster
        self._recorder = recorder
        self._settings = settings
        self._on_eviction = on_eviction
        self._order = EvictionOrder(settings.priority_groups, settings.max_graceful_termination_s)
        self._taint = TaintGuard(
            cluster,
            recorder,
            instruction.node,
            instruction.node_uid,
            delay_after_taint_s,
            instruction.taint_restored,
        )
        self._daemons = DaemonEvictor(cluster, self._order, settings.eviction_retry_s, on_eviction)
        self._timeout_s = instruction.timeout_s
        # For times of pods: setting the wall clock forward must not make a pod overdue.
        self._time = SteadyTime(recorder.now_ms, recorder.steady_ms)
        # When the drain must be over; None = it has not begun.
        self._deadline_ms: int | None = None
        if instruction.deadline_ms:
            self._deadline_ms = recorder.steady_ms() + instruction.deadline_ms - self._time.now_ms()
        self._planned_uids = instruction.planned_uids
        self._known: dict[str, PodRef] = {pod.uid: pod for pod in instruction.pods}
        self._evicted: set[str] = set(instruction.evicted)
        # Pods that an earlier run, or a call whose answer was lost, may have evicted.
        self._in_doubt: set[str] = set(self._known) - self._evicted
        # By uid: the last refusal of an eviction, and when the eviction may be repeated.
        self._refusals: dict[str, str] = {}
        self._retry_ms: dict[str, int] = {}
        self._gone_count = 0
        self._node_due_ms = 0
        self._pause_s = settings.poll_s
        # Whether the present step made progress.
        self._moved = False

    def cancel(self) -> None:
        """Stop after the running eviction."""
        self._cancelled = True

    def evict_pods(self) -> None:
        """Wait for the gang no longer."""
        self._waits_for_gang = False

    def end(self) -> None:
        """Stop, wait for the running step, record granted evictions whose answer was lost. Raises `ClusterError`."""
        self.cancel()
        with self.lock:
            self._resolve_last_doubts()

    def step(self) -> float | None:
        """Evict the pods that may be evicted now. None = the drain has ended or failed."""
        with self.lock:
            if self._cancelled:
                return None
            try:
                return self._step()
            except NodeReplacedError as error:
                # The pods that were here went with the old node; the roll-back removes the taint if the new one has it.
                self._recorder.submit(e.DeletionFailed(self.node, Reason.NODE_CHANGED, str(error)))
                return None
            except ClusterError as error:
                log.warning("drain waits", node=self.node, detail=str(error))
                return self._settings.poll_s

    def _step(self) -> float | None:
        now_ms = self._recorder.steady_ms()
        self._moved = False
        try:
            every_pod = self._look(now_ms)
        except NotFoundError:
            self._resolve_last_doubts()
            self._recorder.submit(e.NodeGone(self.node))
            return None
        pods = self._to_move(every_pod)
        if self._deadline_ms is None:
            if not self._begin(pods):
                return None
            self._deadline_ms = now_ms + int(self._timeout_s * 1000)
        self._resolve_doubts(pods)
        self._note_progress(pods)
        if pods and self._deadline_ms < now_ms:
            self._fail(pods)
            return None
        if self._note_new(pods):
            # The taint may be missing; without it, pods evicted now would return too.
            self._keep_taint()
        settling_s = self._taint.settling_s()
        if settling_s:
            return settling_s
        if self._waits_for_gang:
            return self._settings.poll_s
        self._evict_daemons(every_pod, pods, now_ms)
        if not pods:
            self._recorder.submit(e.Drained(self.node))
            return None
        self._evict_some(pods)
        return self._next_pause_s(pods, self._deadline_ms)

    def _look(self, now_ms: int) -> list[PodView]:
        """Return the node's pods. Raises `NotFoundError` when the node is gone.

        The server's cached data are good enough to follow progress, but not to begin, to resolve doubts or to finish.
        """
        from_cache = self._deadline_ms is not None and not self._in_doubt
        if from_cache and now_ms < self._node_due_ms:
            pods = list(self._cluster.list_pods(self.node, from_cache=True))
            if self._to_move(pods):
                return pods
        self._keep_taint()
        return list(self._cluster.list_pods(self.node))

    def _keep_taint(self) -> None:
        """Read the node and restore its taint. Raises `NotFoundError` when it is gone, `NodeReplacedError`."""
        self._taint.keep()
        self._node_due_ms = self._recorder.steady_ms() + NODE_LOOK_MS

    def _to_move(self, pods: list[PodView]) -> list[PodView]:
        return pods_to_move(pods, self._time.earliest_ms(), self._settings.expendable_priority)

    def _begin(self, pods: list[PodView]) -> bool:
        """Record the pods; False = the node has pods that the plan did not know of, and the deletion has failed."""
        if self._planned_uids is not None:
            unplanned = [pod.key for pod in pods if pod.uid not in self._planned_uids]
            if unplanned:
                detail = f"{len(unplanned)} pods appeared after the plan was checked, such as {unplanned[0]}"
                self._recorder.submit(e.DeletionFailed(self.node, Reason.NODE_CHANGED, detail, tuple(unplanned)))
                return False
        self._record_pods(pods)
        return True

    def _record_pods(self, pods: list[PodView]) -> None:
        """Record pods before the first of them is evicted."""
        refs = tuple(pod_ref(pod) for pod in pods)
        self._recorder.submit(e.DrainStarted(self.node, refs))
        self._known.update((ref.uid, ref) for ref in refs)
        self._moved = True

    def _note_new(self, pods: list[PodView]) -> bool:
        """Record new pods; return whether there are any."""
        new = [pod for pod in pods if pod.uid not in self._known]
        if new:
            self._record_pods(new)
        return bool(new)

    def _resolve_doubts(self, pods: list[PodView]) -> None:
        """Record pods in doubt as evicted if they are terminating or gone: the answer may have been lost."""
        staying = {pod.uid for pod in pods if not pod.deletion_ms}
        granted = sorted(self._in_doubt - staying)
        self._in_doubt.clear()
        if granted:
            self._recorder.submit(e.PodsEvicted(self.node, tuple(self._known[uid] for uid in granted)))
            self._evicted.update(granted)

    def _resolve_last_doubts(self) -> None:
        """Record evictions in doubt when nothing more will be evicted."""
        if self._in_doubt:
            self._resolve_doubts(self._to_move(list(self._cluster.list_pods(self.node))))

    def _note_progress(self, pods: list[PodView]) -> None:
        gone_count = len(self._known.keys() - {pod.uid for pod in pods})
        if gone_count > self._gone_count:
            self._gone_count = gone_count
            self._recorder.submit(e.DrainProgressed(self.node, gone_count))
            self._moved = True

    def _evict_daemons(self, every_pod: list[PodView], pods: list[PodView], now_ms: int) -> None:
        """Evict DaemonSet pods: those of the current priority group, or all of them when no other pod is left."""
        daemons = daemons_to_evict(every_pod, self._settings.evict_daemons_occupied)
        if pods and daemons:
            rank = min(self._order.rank(pod) for pod in pods)
            daemons = [pod for pod in daemons if self._order.rank(pod) <= rank]
        self._daemons.evict(daemons, now_ms)

    def _evict_some(self, pods: list[PodView]) -> None:
        """Request the eviction of pods of the present priority group that are not terminating and may go now."""
        for pod in self._order.next_group(pods):
            if self._cancelled:
                return
            now_ms = self._recorder.steady_ms()
            if pod.deletion_ms or pod.uid in self._evicted or self._retry_ms.get(pod.uid, 0) > now_ms:
                continue
            self._evict(pod, self._order.grace_s(pod), now_ms)

    def _evict(self, pod: PodView, grace_s: int, now_ms: int) -> None:
        try:
            self._cluster.evict(pod, None if grace_s == pod.grace_s else grace_s)
        except NotFoundError:
            self._on_eviction("gone")
        except TooManyRequestsError as error:
            self._refused(pod, str(error), error.retry_after_s, now_ms)
            self._on_eviction("budget")
        except ClusterError as error:
            self._in_doubt.add(pod.uid)
            self._refused(pod, str(error), None, now_ms)
            self._on_eviction("error")
            log.warning("eviction failed", node=self.node, pod=pod.key, detail=str(error))
        else:
            self._recorder.submit(e.PodsEvicted(self.node, (pod_ref(pod),)))
            self._evicted.add(pod.uid)
            self._moved = True
            self._on_eviction("granted")

    def _refused(self, pod: PodView, why: str, hint_s: float | None, now_ms: int) -> None:
        pause_s = self._settings.eviction_retry_s if hint_s is None else min(hint_s, LONGEST_HINT_S)
        self._retry_ms[pod.uid] = now_ms + int(pause_s * 1000)
        self._refusals[pod.uid] = why[:REFUSAL_LENGTH]

    def _next_pause_s(self, pods: list[PodView], deadline_ms: int) -> float:
        """Return the pause before the next step: it grows while nothing happens, up to the next retry or deadline."""
        settings = self._settings
        longest_s = max(settings.poll_s, settings.poll_max_s)
        self._pause_s = settings.poll_s if self._moved else min(self._pause_s * PAUSE_GROWTH, longest_s)
        due_ms = [self._retry_ms[pod.uid] for pod in pods if pod.uid in self._retry_ms and pod.uid not in self._evicted]
        until_s = (min([*due_ms, deadline_ms + 1]) - self._recorder.steady_ms()) / 1000
        return max(settings.poll_s, min(self._pause_s, until_s))

    def _fail(self, pods: list[PodView]) -> None:
        """Report the failure after the deadline: the remaining pods, and the reason for the first of them."""
        left = [pod.key for pod in pods]
        detail = f"{len(left)} pods did not terminate within {self._timeout_s:g} s"
        if self._waits_for_gang:
            detail = f"the drains of the other nodes of its gang did not begin within {self._timeout_s:g} s"
        refused = [(pod.key, self._refusals[pod.uid]) for pod in pods if pod.uid in self._refusals]
        if refused:
            detail += f"; {refused[0][0]}: {refused[0][1]}"
        self._recorder.submit(e.DeletionFailed(self.node, Reason.FAILED_TO_EVICT_PODS, detail, tuple(left)))
