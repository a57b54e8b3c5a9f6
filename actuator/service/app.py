"""The actuator, assembled: journal, engine, runner, and what the service calls.

Decides how it starts (replay, reconcile, resume) and stops. Times are Unix milliseconds.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import structlog
from opentelemetry.metrics import Meter

from actuator.cloud.provider import CloudProvider
from actuator.kube.cluster import HARD_TAINT_KEY, Cluster, ClusterError, hard_taint
from actuator.runner.engine import Engine
from actuator.runner.runner import Runner
from actuator.runner.scheduler import Pool, Scheduler
from actuator.runner.tasks import Surroundings
from actuator.service.deletions import Deletions
from actuator.service.group_views import GroupViews
from actuator.service.growth import Growths
from actuator.service.metrics import Metrics
from actuator.service.settings import ActuatorSettings
from actuator.service.status import Status, StatusWriter
from actuator.store.journal import Journal
from actuator.store.records import Store
from actuator.tracker.states import State
from actuator.tracker.tracker import Tracker

log = structlog.get_logger("actuator")


class Machinery(NamedTuple):
    """What makes an actuator go; tests put virtual time in its place."""

    # Unix seconds.
    clock: Callable[[], float] = time.time
    # From a name and a number of threads.
    make_pool: Callable[[str, int], Pool] = Scheduler
    # False = follow until `lead` is called.
    leading: bool = True
    # How old the cloud's answers in the status may be, seconds; 0 = it is asked each time.
    groups_max_age_s: float = 0.0


class Actuator:
    """One actuator."""

    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        cloud: CloudProvider,
        meter: Meter,
        settings: ActuatorSettings | None = None,
        machinery: Machinery | None = None,
    ) -> None:
        """Replay the store; nothing is done before `start`. Raises `StoreError`."""
        machinery = machinery or Machinery()
        self.settings = settings or ActuatorSettings()
        self.cluster = cluster
        self.cloud = cloud
        self.metrics = Metrics(meter)
        # Set by whoever runs the process: called when the store fails and the process must end.
        self.on_broken: Callable[[], None] = _nothing
        self._journal = Journal(store, self.settings.retention)
        self.engine = Engine(self._journal, machinery.clock, self._broken)
        self.engine.leading = machinery.leading
        around = Surroundings(cluster, cloud, self.engine, self.settings.work, self.metrics.on_eviction)
        self._runner = Runner(around, machinery.make_pool)
        self.engine.dispatch = self._runner.dispatch
        self.metrics.watch(self.engine)
        self.deletions = Deletions(self.engine, around, self.settings)
        self.growths = Growths(self.engine, self.settings.answer_s)
        self._groups = GroupViews(cloud, machinery.groups_max_age_s)
        self.engine.listeners.append(self._groups.on_event)
        self._status = StatusWriter()
        # Tens of thousands of remembered evictions take a while to write for the first time: not while callers wait.
        self.engine.read(lambda tracker, now_ms: self._status.write(tracker, now_ms, True))

    def start(self) -> None:
        """Go on with what was in progress. Raises `ClusterError` when the cluster cannot be seen."""
        in_progress, marked = self.engine.read(_progress)
        nodes = self.cluster.list_nodes()
        tainted = [node.name for node in nodes if node.taint(HARD_TAINT_KEY)]
        strange = sorted(set(tainted) - in_progress)
        log.info("resuming", deletions=len(in_progress), tainted=len(tainted), strange=len(strange))
        if strange:
            # Another autoscaler's, or those of a store that was lost: not ours to take away.
            log.warning("nodes carry the hard taint, but no deletion is known", nodes=strange[:20], key=HARD_TAINT_KEY)
        for name in sorted(marked & {node.name for node in nodes} - set(tainted)):
            self._mark_again(name)
        self.engine.resume()

    def _mark_again(self, name: str) -> None:
        """Put back the taint of a node that is still to go: while nobody looked, somebody took it away."""
        log.warning("somebody took the taint away; it is put back", node=name)
        try:
            self.cluster.add_taint(name, hard_taint(self.engine.now_ms()))
        except ClusterError as error:
            # Its drain tries again.
            log.warning("taint not put back", node=name, detail=str(error))

    def lead(self) -> None:
        """Act from now on, where the leader before has stopped. Raises as `start`, and `StoreError`."""
        self.engine.lead()
        self.start()

    def stop(self) -> None:
        """Let running steps finish; what is in progress goes on at the next start."""
        self._runner.stop()
        self._journal.close()

    def _broken(self) -> None:
        self.on_broken()

    def status(self, with_finished: bool) -> Status:
        """All that the actuator knows. Raises `CloudError`, `StoreError`."""
        groups = self._groups.get()
        return self.engine.read(lambda tracker, now_ms: self._status.write(tracker, now_ms, with_finished, groups))


def _progress(tracker: Tracker, _now_ms: int) -> tuple[set[str], set[str]]:
    """Nodes in progress, and those of them that must carry the taint."""
    deletions = tracker.memory.deletions
    marked = {node for node, one in deletions.items() if one.state not in (State.PLANNED, State.ROLLING_BACK)}
    return set(deletions), marked


def _nothing() -> None:
    pass
