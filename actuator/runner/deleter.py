"""Deletes the instances of one node group.

Decides when the cloud is asked: requests that come together are made together. An instance that the cloud refuses to
delete, or that is not gone in time, is given back. Durations in seconds.
"""

import threading
from collections.abc import Mapping

import structlog

from actuator.cloud.provider import CloudError, CloudProvider, CloudRefusedError, InstanceState
from actuator.drain.drain import Recorder
from actuator.kube.cluster import Cluster, ClusterError
from actuator.runner.retries import persistent
from actuator.settings import WorkSettings
from actuator.tracker import events as e
from actuator.tracker.states import Reason
from actuator.tracker.transitions import ImpossibleEventError

log = structlog.get_logger("deleter")


# Steps follow each other within seconds: of a longer time between two, only so much counts.
LONGEST_STEP_MS = 10_000


class GroupDeleter:
    """A `Task` for one node group; it rests when nothing is left."""

    def __init__(
        self, group: str, cluster: Cluster, cloud: CloudProvider, recorder: Recorder, settings: WorkSettings
    ) -> None:
        self.name = f"delete in {group}"
        self._group = group
        self._cluster = cluster
        self._cloud = cloud
        self._recorder = recorder
        self._settings = settings
        self._lock = threading.Lock()
        self._running = False
        # When it was looked at the clock last, and how much time it has seen pass.
        self._clock_ms = 0
        self._passed_ms = 0
        # Nodes to ask for, and nodes asked for, each with the time, of that seen pass, at which it is given up.
        self._wanted: dict[str, int] = {}
        self._asked: dict[str, int] = {}

    def want(self, node: str) -> bool:
        """Add a node. True = the task rests, and has to be scheduled."""
        with self._lock:
            self._wanted[node] = self._time_ms() + int(self._settings.delete.timeout_s * 1000)
            started, self._running = not self._running, True
            return started

    def step(self) -> float | None:
        """Ask for what is wanted, look after what was asked for."""
        try:
            with self._lock:
                self._time_ms()
            self._ask()
            self._look()
        except (CloudError, ClusterError) as error:
            log.warning("deletion waits", group=self._group, detail=str(error))
            self._expire(self._wanted, str(error))
            self._expire(self._asked, str(error))
            return self._settings.delete.retry_s
        with self._lock:
            if not self._wanted and not self._asked:
                self._running = False
                return None
        return self._settings.delete.poll_s

    def _ask(self) -> None:
        with self._lock:
            batch = dict(self._wanted)
        if not batch:
            return
        # What an earlier run, or a call whose answer was lost, has begun is not asked for again.
        states = self._states(sorted(batch))
        nodes = [node for node, state in states.items() if state is InstanceState.RUNNING]
        failed: Mapping[str, CloudError] = {}
        if nodes:
            failed = persistent(lambda: self._cloud.delete_instances(self._group, nodes), self._settings.call_backoff)
        for node in sorted(batch):
            error = failed.get(node)
            if error is None:
                self._report(e.DeleteAccepted(node))
                self._asked[node] = batch[node]
                self._forget(node)
            elif isinstance(error, CloudRefusedError):
                self._fail(node, str(error))
            else:
                log.warning("deletion waits", node=node, detail=str(error))
                self._expire({node: batch[node]}, str(error))

    def _look(self) -> None:
        if not self._asked:
            return
        for node, state in self._states(sorted(self._asked)).items():
            if state is InstanceState.GONE:
                self._delete_node(node)
                self._report(e.InstanceGone(node))
                del self._asked[node]
        self._expire(self._asked, "the instance is still there")

    def _states(self, nodes: list[str]) -> Mapping[str, InstanceState]:
        return persistent(lambda: self._cloud.instance_states(self._group, nodes), self._settings.call_backoff)

    def _delete_node(self, node: str) -> None:
        """Remove the node object if the cloud has left it."""
        persistent(lambda: self._cluster.delete_node(node), self._settings.call_backoff)

    def _expire(self, deadlines: dict[str, int], detail: str) -> None:
        with self._lock:
            now_ms = self._time_ms()
        for node in sorted(node for node, deadline_ms in deadlines.items() if deadline_ms < now_ms):
            self._fail(node, f"not deleted within {self._settings.delete.timeout_s:g} s: {detail}")

    def _time_ms(self) -> int:
        """Time seen to pass. A clock that is put forward makes nothing late, nor does a process that stood still."""
        clock_ms = self._recorder.now_ms()
        self._passed_ms += min(max(0, clock_ms - self._clock_ms), LONGEST_STEP_MS)
        self._clock_ms = clock_ms
        return self._passed_ms

    def _fail(self, node: str, detail: str) -> None:
        self._report(e.DeletionFailed(node, Reason.FAILED_TO_DELETE, detail))
        self._asked.pop(node, None)
        self._forget(node)

    def _report(self, event: e.Event) -> None:
        """Record an event; one that comes for a deletion that has ended must not hold up the others."""
        try:
            self._recorder.submit(event)
        except ImpossibleEventError as error:
            log.warning("report dropped", group=self._group, detail=str(error))

    def _forget(self, node: str) -> None:
        with self._lock:
            self._wanted.pop(node, None)
