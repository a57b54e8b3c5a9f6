"""The actuator, assembled: journal, event processor, runner, and the calls of the service.

Decides how it starts (replay, reconcile, resume) and how it stops. Times are Unix milliseconds.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import structlog
from opentelemetry.metrics import Meter

from trimtab.actuator.cloud.provider import CloudNodeTemplate, CloudProvider
from trimtab.actuator.kube.cluster import ClusterApi, ClusterError, NodeView, TaintView, hard_taint
from trimtab.actuator.node_groups.loop import NodeGroupLoop
from trimtab.actuator.node_types.learned_resources import Offers
from trimtab.actuator.replacements.task import ReplacementTask, ReplacementWork
from trimtab.actuator.runner.clock import Clock
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.runner.runner import Runner
from trimtab.actuator.runner.scheduler import Pool, Scheduler
from trimtab.actuator.runner.tasks import TaskContext
from trimtab.actuator.service.deletions import Deletions
from trimtab.actuator.service.group_views import GroupViews
from trimtab.actuator.service.growth import Growths
from trimtab.actuator.service.metrics import Metrics
from trimtab.actuator.service.replacement_orders import ReplacementOrders
from trimtab.actuator.service.replacement_reports import ReplacementReports
from trimtab.actuator.service.settings import ActuatorSettings
from trimtab.actuator.service.state_log import DeletionSpans, StateLog
from trimtab.actuator.service.status import EncodedStatus, StatusParts, StatusWriter
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import Store
from trimtab.actuator.tracker.events import TaintRestored
from trimtab.actuator.tracker.states import State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.common.kubernetes.names import HARD_TAINT_KEY

log = structlog.get_logger("actuator")


class Runtime(NamedTuple):
    """Clocks and threads of an actuator; tests replace them by virtual time."""

    # Unix seconds.
    clock: Callable[[], float] = time.time
    # Seconds that never jump.
    steady: Callable[[], float] = time.monotonic
    # From a name and a number of threads.
    make_pool: Callable[[str, int], Pool] = Scheduler
    # False = follow until `lead` is called.
    leading: bool = True
    # Greatest age of the cloud's node groups in the status, seconds; 0 = they are read each time.
    groups_max_age_s: float = 0.0


class Actuator:
    """One actuator."""

    def __init__(
        self,
        store: Store,
        cluster: ClusterApi,
        cloud: CloudProvider,
        meter: Meter,
        settings: ActuatorSettings | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """Replay the store; no work begins before `start`. Raises `StoreError`."""
        runtime = runtime or Runtime()
        self.settings = settings or ActuatorSettings()
        self.cluster = cluster
        self.cloud = cloud
        self.metrics = Metrics(meter)
        # Set by the process: called when the store fails and the process must end.
        self.on_broken: Callable[[], None] = _nothing
        self._journal = Journal(store, self.settings.retention)
        self.processor = EventProcessor(self._journal, Clock(runtime.clock, runtime.steady), self._broken)
        self.processor.leading = runtime.leading
        context = TaskContext(cluster, cloud, self.processor, self.settings.work, self.metrics.on_eviction)
        self._runner = Runner(context, runtime.make_pool)
        self.processor.dispatch = self._runner.dispatch
        self.metrics.watch(self.processor)
        self.processor.listeners.append(StateLog().on_event)
        self.spans = DeletionSpans()
        self.processor.listeners.append(self.spans.on_event)
        self.deletions = Deletions(self.processor, context, self.settings)
        self.replacements = ReplacementOrders(self.processor, context, self.settings, self.deletions)
        replacing = ReplacementWork(
            context, self.processor, self.settings.present_limits, self.settings.groups.not_ready_taints
        )
        self._runner.replacement_task = lambda request_id: ReplacementTask(request_id, replacing)
        ReplacementReports(meter).watch(self.processor)
        self.growths = Growths(self.processor, self.settings.answer_s, self.settings.groups.sized_by_caller)
        self._groups = GroupViews(cloud, runtime.groups_max_age_s)
        self.processor.listeners.append(self._groups.on_event)
        self._offers = Offers()
        self._status = StatusWriter(self._offers)
        # The first encoding of tens of thousands of evictions takes a while; callers must not wait for it.
        self.processor.read(lambda tracker, now_ms: self._status.write(tracker, now_ms, True))

    def start(self) -> None:
        """Continue what was in progress. Raises `ClusterError` when the nodes cannot be listed."""
        in_progress, marked = self.processor.read(_progress)
        for group, instances in self.processor.read(_instances_in_deletion).items():
            self.cloud.remember(group, instances)
        nodes = self.cluster.list_nodes()
        tainted = {node.name: node.taint(HARD_TAINT_KEY) for node in nodes if node.taint(HARD_TAINT_KEY)}
        unknown = sorted(tainted.keys() - in_progress)
        log.info("resuming", deletions=len(in_progress), tainted=len(tainted), unknown_taints=len(unknown))
        self.metrics.on_unknown_taints(len(unknown))
        for name in unknown:
            _report_taint(name, tainted[name])
        lacking = [node.name for node in nodes if node.name not in tainted and _is_same(node, marked.get(node.name))]
        # First: a process that ended after the taints were written would not know that they were away.
        self.processor.note([TaintRestored(name) for name in sorted(lacking)])
        for name in sorted(lacking):
            self._restore_taint(name, marked[name])
        self.processor.resume()

    def _restore_taint(self, name: str, uid: str) -> None:
        """Restore the taint of a node being deleted: another client removed it while no actuator was running."""
        log.warning("another client removed the taint; it is restored", node=name)
        try:
            self.cluster.add_taint(name, hard_taint(self.processor.now_ms()), uid)
        except ClusterError as error:
            # Its drain retries.
            log.warning("taint not restored", node=name, detail=str(error))

    def node_group_loop(self) -> NodeGroupLoop:
        """Return the loop that checks the node groups while this process leads; it is not started."""
        settings = self.settings
        return NodeGroupLoop(self.processor, self.cluster, self.cloud, settings.groups, settings.present_limits)

    def lead(self) -> None:
        """Start to act where the previous leader stopped. Raises as `start`, and `StoreError`."""
        self.processor.refresh()
        self.start()

    def stop(self) -> None:
        """Stop after the running steps; what is in progress continues at the next start."""
        self._runner.stop()
        self._journal.close()

    def _broken(self) -> None:
        self.on_broken()

    def status(
        self, with_finished: bool, with_instances: bool = False, base: StatusParts | None = None
    ) -> EncodedStatus:
        """Return the complete status, or what has changed since `base`. Raises `CloudError`, `StoreError`."""
        groups = self._groups.get(with_instances)
        groups = groups if with_instances else groups._replace(instances=None)
        return self.processor.read(
            lambda tracker, now_ms: self._status.write(tracker, now_ms, with_finished, groups, base)
        )

    def offered(self, group: str, template: CloudNodeTemplate) -> CloudNodeTemplate:
        """Return a template of the cloud with the resources of real nodes, as in the status. Raises `StoreError`."""
        return self.processor.read(lambda tracker, _: self._offers.of(group, template, tracker.data.node_types))


def _report_taint(node: str, taint: TaintView | None) -> None:
    """Log a taint of another autoscaler or of a lost store. It stays, as its owner is unknown."""
    log.warning(
        "unknown_taint",
        node=node,
        since_unix_s=taint.value if taint else "",
        detail="the node is marked for deletion, but no deletion is known here; if no other autoscaler works on it,"
        f" remove the taint: kubectl taint node {node} {HARD_TAINT_KEY}-",
    )


def _is_same(node: NodeView, uid: str | None) -> bool:
    """Return whether a node is the one to be deleted, not another one of its name. uid None = none is; "" = any is."""
    return uid is not None and uid in ("", node.uid)


def _progress(tracker: Tracker, _now_ms: int) -> tuple[set[str], dict[str, str]]:
    """Return the nodes in progress, and the uids of those of them that must carry the taint.

    A node that another autoscaler has drained is checked by its deletion: pods may have come since its taint was
    removed.
    """
    deletions = tracker.data.deletions
    unmarked = (State.PLANNED, State.ROLLING_BACK)
    marked = {
        node: deletion.node_uid
        for node, deletion in deletions.items()
        if not (deletion.drained_by_caller or deletion.state in unmarked)
    }
    return set(deletions), marked


def _instances_in_deletion(tracker: Tracker, _now_ms: int) -> dict[str, list[str]]:
    """Return the provider ids of the instances being deleted, by node group."""
    found: dict[str, list[str]] = {}
    for deletion in tracker.data.deletions.values():
        if deletion.provider_id:
            found.setdefault(deletion.node_group, []).append(deletion.provider_id)
    return found


def _nothing() -> None:
    pass
