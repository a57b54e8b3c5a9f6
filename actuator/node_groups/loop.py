"""The thread that checks node groups for failed activities and nodes that do not join, while this process leads.
Decides when they are checked; `activity_watcher` and `reconciler` decide what follows. Seconds.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudProvider
from trimtab.actuator.kube.cluster import ClusterApi, ClusterError, NotLeaderError
from trimtab.actuator.node_groups.activity_watcher import ActivityWatcher
from trimtab.actuator.node_groups.reconciler import NodeGroupReconciler
from trimtab.actuator.node_groups.settings import GroupSettings
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.store.records import StoreError
from trimtab.actuator.tracker.admission import DeletionLimits

log = structlog.get_logger("groups")

POLL_S: Final = 10.0


class NodeGroupLoop:
    """Checks every `POLL_S`, as a thread or as a `Task` (see `trimtab.actuator.runner.scheduler`)."""

    name = "node groups"

    def __init__(
        self,
        processor: EventProcessor,
        cluster: ClusterApi,
        cloud: CloudProvider,
        settings: GroupSettings,
        limits: Callable[[], DeletionLimits],
    ) -> None:
        """Begin nothing yet. limits : the present ones, for deletions of instances."""
        self._processor = processor
        self._steps = (
            # First: the others may wait for the cloud.
            processor.note_time,
            ActivityWatcher(processor, cloud, settings.backoff).step,
            NodeGroupReconciler(processor, cluster, cloud, settings, limits).step,
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groups", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the running step."""
        self._stopped.set()

    def step(self) -> float:
        """Check once, if this process leads; return the pause until the next time."""
        for step in self._steps if self._processor.leading else ():
            try:
                step()
            except (CloudError, ClusterError, StoreError, NotLeaderError) as error:
                log.warning("groups not read, retrying", detail=str(error))
            except Exception as error:
                # The other groups, and the next time, must not depend on it: nothing else would check them.
                log.error("groups not checked, it is tried again", exc_info=error)
        return POLL_S

    def _run(self) -> None:
        while not self._stopped.wait(POLL_S):
            self.step()
