"""Checks node groups for failed activities and nodes that do not join, while this process leads. Decides when they are
checked; `activity_watcher` and `reconciler` decide what follows. Seconds.
"""

from collections.abc import Callable
from typing import Final

import structlog

from trimtab.actuator.cloud.provider import Activity, CloudError, CloudProvider
from trimtab.actuator.kube.cluster import ClusterApi, ClusterError, NotLeaderError
from trimtab.actuator.node_groups.reconciler import NodeGroupReconciler
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.settings import BackoffPolicy, GroupSettings
from trimtab.actuator.store.records import StoreError
from trimtab.actuator.tracker.admission import DeletionLimits
from trimtab.actuator.tracker.events import Event, GroupBackedOff, GroupFailed
from trimtab.actuator.tracker.tracker import Tracker

# Source: CA, `--max-node-provision-time`.
WATCH_S: Final = 900.0
# How far the cloud's clock may be behind ours.
SKEW_S: Final = 60.0

log = structlog.get_logger("groups")
POLL_S: Final = 10.0


class ActivityWatcher:
    """Reads the activities of growing groups, in steps."""

    def __init__(
        self, processor: EventProcessor, cloud: CloudProvider, backoff: BackoffPolicy = BackoffPolicy.UNTIL_JOINED
    ) -> None:
        self._processor = processor
        self._cloud = cloud
        self._backoff = backoff

    def step(self) -> None:
        """Record new failures. Raises `CloudError`, `StoreError`, `NotLeaderError`."""
        for group, since_ms in sorted(self._processor.read(_growing).items()):
            for activity in reversed(self._cloud.activities(group)):
                is_older = 0 < activity.start_ms < since_ms - SKEW_S * 1000
                if activity.failed and not is_older and self._processor.propose(self._failure(activity)) is not None:
                    log.warning("group_failed", node_group=group, detail=activity.detail)

    def _failure(self, activity: Activity) -> Callable[[Tracker, int], Event | None]:
        def proposal(tracker: Tracker, _now_ms: int) -> Event | None:
            data = tracker.data
            known = data.group_failures.get(activity.group, ())
            if any(failure.activity == activity.id for failure in known):
                return None
            make = GroupFailed if self._backoff is BackoffPolicy.EXPONENTIAL else GroupBackedOff
            return make(activity.group, activity.id, activity.detail)

        return proposal


def _growing(tracker: Tracker, now_ms: int) -> dict[str, int]:
    """Return the groups that were scaled up lately, and since when."""
    counts: dict[str, int] = {}
    for record in tracker.data.growths.values():
        if record.time_ms < now_ms - WATCH_S * 1000:
            continue
        for answer in record.grown:
            if answer.accepted:
                counts.setdefault(answer.node_group, record.time_ms)
    return counts


class NodeGroupLoop:
    """Checks every `POLL_S`; a `ScheduledTask` (see `trimtab.actuator.runner.scheduler`)."""

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

    def step(self) -> float:
        """Check once, if this process leads; return the pause until the next time."""
        for step in self._steps if self._processor.leading else ():
            try:
                step()
            except (CloudError, ClusterError, StoreError, NotLeaderError) as error:
                log.warning("groups not read, retrying", detail=str(error))
            except Exception as error:
                # The other groups, and the next time, must not depend on it: nothing else would check them.
                log.error("the node groups were not checked; the next round tries again", exc_info=error)
        return POLL_S
