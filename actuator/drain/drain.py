"""The drain of one node, in steps.

Decides when each pod is asked to go: evictions that a budget refuses are asked for again until the drain's one
deadline. What is about to go is written down before the first eviction, and each eviction before the next one, so that
a restart neither forgets nor repeats any. Never deletes a pod; of the node it touches nothing but the taint, which it
puts back where somebody took it away. Times are Unix milliseconds, durations seconds.
"""

import threading
from typing import Protocol

import structlog

from actuator.drain.daemons import DaemonEvictor, EvictionCounter
from actuator.drain.pods import EvictionOrder, daemons_to_evict, pod_ref, pods_to_move
from actuator.kube.cluster import (
    HARD_TAINT_KEY,
    Cluster,
    ClusterError,
    NotFoundError,
    PodView,
    TooManyRequestsError,
    hard_taint,
)
from actuator.settings import DrainSettings
from actuator.tracker import events as e
from actuator.tracker.instructions import Drain
from actuator.tracker.states import PodRef, Reason

log = structlog.get_logger("drain")

# Each pause is so much longer than the one before while nothing happens.
PAUSE_GROWTH = 1.5
# How often the node itself is looked at; its pods are more often.
NODE_LOOK_MS = 10_000
# Of a refusal's text, so much is kept.
REFUSAL_LENGTH = 300


class Recorder(Protocol):
    """Where events go; durable when `submit` returns."""

    def submit(self, event: e.Event) -> None:
        """Record an event."""

    def now_ms(self) -> int:
        """The present time."""


class DrainTask:
    """A `Task` that drains one node. `on_eviction` learns the result of each request, for the metrics."""

    def __init__(
        self,
        instruction: Drain,
        cluster: Cluster,
        recorder: Recorder,
        settings: DrainSettings,
        on_eviction: EvictionCounter,
    ) -> None:
        self.node = instruction.node
        self.name = f"drain {instruction.node}"
        # Held during a step: whoever cancels and then takes it knows that nothing more is evicted.
        self.lock = threading.Lock()
        self._cancelled = False
        self._cluster = cluster
        self._recorder = recorder
        self._settings = settings
        self._on_eviction = on_eviction
        self._order = EvictionOrder(settings.priority_groups, settings.max_graceful_termination_s)
        self._daemons = DaemonEvictor(cluster, self._order, settings.eviction_retry_s, on_eviction)
        self._timeout_s = instruction.timeout_s
        self._deadline_ms = instruction.deadline_ms
        self._planned_uids = instruction.planned_uids
        self._known: dict[str, PodRef] = {pod.uid: pod for pod in instruction.pods}
        self._evicted: set[str] = set(instruction.evicted)
        # Pods that an earlier run, or a call whose answer was lost, may have evicted.
        self._in_doubt: set[str] = set(self._known) - self._evicted
        # Why and until when an eviction is not asked for again.
        self._refusals: dict[str, str] = {}
        self._retry_ms: dict[str, int] = {}
        self._gone_count = 0
        self._node_due_ms = 0
        self._latest_ms = 0
        self._pause_s = settings.poll_s
        # Whether the present step has found or done anything.
        self._moved = False

    def cancel(self) -> None:
        """Stop after the eviction that is under way."""
        self._cancelled = True

    def end(self) -> None:
        """Stop, wait until nothing more is evicted, and record what was granted unseen. Raises `ClusterError`."""
        self.cancel()
        with self.lock:
            self._settle_last_doubts()

    def step(self) -> float | None:
        """Evict what may go now. None = the drain is over, one way or the other."""
        with self.lock:
            if self._cancelled:
                return None
            try:
                return self._step()
            except ClusterError as error:
                log.warning("drain waits", node=self.node, detail=str(error))
                return self._settings.poll_s

    def _step(self) -> float | None:
        now_ms = self._recorder.now_ms()
        self._follow_clock(now_ms)
        self._moved = False
        try:
            found = self._look(now_ms)
        except NotFoundError:
            self._settle_last_doubts()
            self._recorder.submit(e.NodeGone(self.node))
            return None
        pods = self._to_move(found, now_ms)
        if self._deadline_ms == 0 and not self._begin(pods, now_ms):
            return None
        self._settle_doubts(pods)
        self._note_progress(pods)
        if pods and self._deadline_ms < now_ms:
            self._give_up(pods)
            return None
        if self._note_new(pods):
            # How could they come? Without the taint, those evicted now would come back too.
            self._keep_taint(now_ms)
        self._evict_daemons(found, pods, now_ms)
        if not pods:
            self._recorder.submit(e.Drained(self.node))
            return None
        self._evict_some(pods)
        return self._next_pause_s(pods)

    def _follow_clock(self, now_ms: int) -> None:
        """Let a clock that was put back make no pause longer."""
        back_ms, self._latest_ms = max(0, self._latest_ms - now_ms), now_ms
        if back_ms:
            self._node_due_ms -= back_ms
            self._retry_ms = {uid: due_ms - back_ms for uid, due_ms in self._retry_ms.items()}
            if self._deadline_ms:
                self._deadline_ms -= back_ms

    def _look(self, now_ms: int) -> list[PodView]:
        """The node's pods. Raises `NotFoundError` when the node is gone.

        What the server has in memory will do to see how things go on; never to begin, to settle a doubt or to end.
        """
        recent = self._deadline_ms > 0 and not self._in_doubt
        if recent and now_ms < self._node_due_ms:
            pods = list(self._cluster.list_pods(self.node, recent=True))
            if self._to_move(pods, now_ms):
                return pods
        self._keep_taint(now_ms)
        return list(self._cluster.list_pods(self.node))

    def _keep_taint(self, now_ms: int) -> None:
        """Look at the node and put its taint back if need be. Raises `NotFoundError` when the node is gone."""
        node = self._cluster.get_node(self.node)
        self._node_due_ms = now_ms + NODE_LOOK_MS
        if node.taint(HARD_TAINT_KEY) is None:
            log.warning("somebody took the taint away; it is put back", node=self.node)
            self._cluster.add_taint(self.node, hard_taint(now_ms))

    def _to_move(self, pods: list[PodView], now_ms: int) -> list[PodView]:
        return pods_to_move(pods, now_ms, self._settings.expendable_priority)

    def _begin(self, pods: list[PodView], now_ms: int) -> bool:
        """Write down what is to go; False = pods came that the plan did not know, and the deletion is given up."""
        if self._planned_uids is not None:
            strangers = [pod.key for pod in pods if pod.uid not in self._planned_uids]
            if strangers:
                detail = f"{len(strangers)} pods came after the plan was checked, such as {strangers[0]}"
                self._recorder.submit(e.DeletionFailed(self.node, Reason.NODE_CHANGED, detail, tuple(strangers)))
                return False
        self._know(pods)
        self._deadline_ms = now_ms + int(self._timeout_s * 1000)
        return True

    def _know(self, pods: list[PodView]) -> None:
        """Write pods down, before the first of them is evicted."""
        refs = tuple(pod_ref(pod) for pod in pods)
        self._recorder.submit(e.DrainStarted(self.node, refs))
        self._known.update((ref.uid, ref) for ref in refs)
        self._moved = True

    def _note_new(self, pods: list[PodView]) -> bool:
        """Write down pods that have come since; whether there are any."""
        new = [pod for pod in pods if pod.uid not in self._known]
        if new:
            self._know(new)
        return bool(new)

    def _settle_doubts(self, pods: list[PodView]) -> None:
        """Record as evicted what is leaving or gone, where an eviction may have been granted unseen."""
        staying = {pod.uid for pod in pods if not pod.deletion_ms}
        granted = sorted(self._in_doubt - staying)
        self._in_doubt.clear()
        if granted:
            self._recorder.submit(e.PodsEvicted(self.node, tuple(self._known[uid] for uid in granted)))
            self._evicted.update(granted)

    def _settle_last_doubts(self) -> None:
        """The same when nothing more will be evicted."""
        if self._in_doubt:
            self._settle_doubts(self._to_move(list(self._cluster.list_pods(self.node)), self._recorder.now_ms()))

    def _note_progress(self, pods: list[PodView]) -> None:
        gone_count = len(self._known.keys() - {pod.uid for pod in pods})
        if gone_count > self._gone_count:
            self._gone_count = gone_count
            self._recorder.submit(e.DrainProgressed(self.node, gone_count))
            self._moved = True

    def _evict_daemons(self, found: list[PodView], pods: list[PodView], now_ms: int) -> None:
        """Tell DaemonSet pods to end: those whose turn it is, all of them when nothing else is left."""
        daemons = daemons_to_evict(found, self._settings.evict_daemons_occupied)
        if pods and daemons:
            rank = min(self._order.rank(pod) for pod in pods)
            daemons = [pod for pod in daemons if self._order.rank(pod) <= rank]
        self._daemons.evict(daemons, now_ms)

    def _evict_some(self, pods: list[PodView]) -> None:
        """Ask once for each pod of the present group that is not leaving and whose pause is over."""
        for pod in self._order.next_group(pods):
            if self._cancelled:
                return
            now_ms = self._recorder.now_ms()
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
        pause_s = self._settings.eviction_retry_s if hint_s is None else hint_s
        self._retry_ms[pod.uid] = now_ms + int(pause_s * 1000)
        self._refusals[pod.uid] = why[:REFUSAL_LENGTH]

    def _next_pause_s(self, pods: list[PodView]) -> float:
        """Until the next step: growing while nothing happens, but no longer than to the next thing to be done."""
        settings = self._settings
        longest_s = max(settings.poll_s, settings.poll_max_s)
        self._pause_s = settings.poll_s if self._moved else min(self._pause_s * PAUSE_GROWTH, longest_s)
        due_ms = [self._retry_ms[pod.uid] for pod in pods if pod.uid in self._retry_ms and pod.uid not in self._evicted]
        until_s = (min([*due_ms, self._deadline_ms + 1]) - self._recorder.now_ms()) / 1000
        return max(settings.poll_s, min(self._pause_s, until_s))

    def _give_up(self, pods: list[PodView]) -> None:
        """The deadline has passed: name the pods that would not go, and say why of the first."""
        left = [pod.key for pod in pods]
        detail = f"{len(left)} pods did not go within {self._timeout_s:g} s"
        told = [(pod.key, self._refusals[pod.uid]) for pod in pods if pod.uid in self._refusals]
        if told:
            detail += f"; {told[0][0]}: {told[0][1]}"
        self._recorder.submit(e.DeletionFailed(self.node, Reason.FAILED_TO_EVICT_PODS, detail, tuple(left)))
