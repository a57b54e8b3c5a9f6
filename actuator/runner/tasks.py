"""The short tasks: tainting a set, checking an empty node, beginning a deletion, rolling back, growing.

Decides nothing but whether a step worked. Each may run twice. Durations in seconds.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import structlog

from actuator.cloud.provider import CloudError, CloudProvider, CloudRefusedError
from actuator.drain.daemons import DaemonEvictor, EvictionCounter
from actuator.drain.drain import DrainTask, Recorder
from actuator.drain.pods import EvictionOrder, daemons_to_evict, pods_to_move
from actuator.kube.cluster import HARD_TAINT_KEY, Cluster, ClusterError, NotFoundError, PodView, hard_taint
from actuator.runner.retries import persistent
from actuator.settings import WorkSettings
from actuator.tracker import events as e
from actuator.tracker import instructions as i
from actuator.tracker.states import GrowthAnswer, Reason

log = structlog.get_logger("runner")


class Surroundings(NamedTuple):
    """What tasks work with."""

    cluster: Cluster
    cloud: CloudProvider
    recorder: Recorder
    settings: WorkSettings
    # Tells the metrics about an eviction request.
    on_eviction: EvictionCounter


class TaintTask:
    """Taints all nodes of a request; the first node that takes no taint fails the set."""

    def __init__(self, instruction: i.WriteTaints, around: Surroundings) -> None:
        self.name = f"taint {instruction.request_id}"
        self._instruction = instruction
        self._around = around

    def step(self) -> None:
        """Do it at once."""
        around, request_id = self._around, self._instruction.request_id
        with ThreadPoolExecutor(around.settings.taint_thread_count, thread_name_prefix="taint") as pool:
            failures = [
                (node, detail)
                for node, detail in zip(
                    self._instruction.nodes, pool.map(self._taint, self._instruction.nodes), strict=True
                )
                if detail
            ]
        if failures:
            around.recorder.submit(e.SetFailed(request_id, *failures[0]))
        else:
            around.recorder.submit(e.SetTainted(request_id))

    def _taint(self, node: str) -> str:
        """Write one taint; why not, "" = it is there."""
        around = self._around
        taint = hard_taint(around.recorder.now_ms())
        try:
            persistent(lambda: around.cluster.add_taint(node, taint), around.settings.call_backoff)
        except ClusterError as error:
            return str(error) or type(error).__name__
        return ""


class CheckEmptyTask:
    """Makes sure that a node to go without drain has no pod to move."""

    def __init__(self, instruction: i.CheckEmpty, around: Surroundings) -> None:
        self.name = f"check {instruction.node}"
        self._node = instruction.node
        self._around = around
        # Held during a step.
        self._lock = threading.Lock()
        self._ended = False

    def end(self) -> None:
        """Stop, and wait for the step under way: from then on the node is not touched any more."""
        with self._lock:
            self._ended = True

    def step(self) -> float | None:
        """Look at the pods; where there is none to move, tell DaemonSet pods to end if that is wanted."""
        with self._lock:
            return None if self._ended else self._step()

    def _step(self) -> float | None:
        cluster, recorder, settings = self._around.cluster, self._around.recorder, self._around.settings.drain
        now_ms = recorder.now_ms()
        try:
            if cluster.get_node(self._node).taint(HARD_TAINT_KEY) is None:
                log.warning("somebody took the taint away; it is put back", node=self._node)
                cluster.add_taint(self._node, hard_taint(now_ms))
            found = cluster.list_pods(self._node)
            pods = pods_to_move(found, now_ms, settings.expendable_priority)
        except NotFoundError:
            recorder.submit(e.NodeGone(self._node))
            return None
        except ClusterError as error:
            log.warning("check waits", node=self._node, detail=str(error))
            return self._around.settings.rollback_retry_s
        if pods:
            keys = tuple(pod.key for pod in pods)
            detail = f"{len(pods)} pods came after the node was tainted, such as {keys[0]}"
            recorder.submit(e.DeletionFailed(self._node, Reason.NODE_CHANGED, detail, keys))
        else:
            self._evict_daemons(daemons_to_evict(found, settings.evict_daemons_empty), now_ms)
            recorder.submit(e.NodeEmpty(self._node))
        return None

    def _evict_daemons(self, daemons: list[PodView], now_ms: int) -> None:
        cluster, settings = self._around.cluster, self._around.settings.drain
        order = EvictionOrder(settings.priority_groups, settings.max_graceful_termination_s)
        evictor = DaemonEvictor(cluster, order, settings.eviction_retry_s, self._around.on_eviction)
        evictor.evict(daemons, now_ms)


class BeginDeleteTask:
    """Writes down that the cloud is about to be asked."""

    def __init__(self, instruction: i.BeginDelete, around: Surroundings) -> None:
        self.name = f"begin deletion of {instruction.node}"
        self._node = instruction.node
        self._recorder = around.recorder

    def step(self) -> None:
        """Do it at once."""
        self._recorder.submit(e.DeleteBegun(self._node))


class RollBackTask:
    """Takes a node's taint back once the work on it has stopped, and does not give up."""

    def __init__(self, instruction: i.RollBack, work: DrainTask | CheckEmptyTask | None, around: Surroundings) -> None:
        self.name = f"roll back {instruction.node}"
        self._node = instruction.node
        self._work = work
        self._around = around

    def step(self) -> float | None:
        """Try it."""
        try:
            if self._work is not None:
                self._work.end()
                self._work = None
            self._around.cluster.remove_taint(self._node, HARD_TAINT_KEY)
        except NotFoundError:
            log.info("nothing to roll back, the node is gone", node=self._node)
        except ClusterError as error:
            log.warning("roll-back waits", node=self._node, detail=str(error))
            return self._around.settings.rollback_retry_s
        self._around.recorder.submit(e.RolledBack(self._node))
        return None


class GrowTask:
    """Asks the cloud to grow node groups, each once."""

    def __init__(self, instruction: i.Grow, around: Surroundings) -> None:
        self.name = f"grow {instruction.request_id}"
        self._instruction = instruction
        self._around = around

    def step(self) -> None:
        """Do it at once."""
        answers = []
        for position, growth in enumerate(self._instruction.growths):
            token = f"{self._instruction.request_id}/{position}"
            detail = self._grow(growth.node_group, growth.delta, token)
            answers.append(GrowthAnswer(growth.node_group, not detail, detail))
        self._around.recorder.submit(e.GrowthAnswered(self._instruction.request_id, tuple(answers)))

    def _grow(self, group: str, delta: int, token: str) -> str:
        """Ask for one growth; why not, "" = accepted."""
        try:
            persistent(lambda: self._around.cloud.grow(group, delta, token), self._around.settings.call_backoff)
        except CloudRefusedError as error:
            return str(error)
        except CloudError as error:
            return f"the cloud did not answer: {error}"
        return ""
