"""The cloud's node groups for the status, their instances and their configuration.

Decides when the cloud is called: a status is read often, and must neither wait for the cloud each time nor load it.
Changes by this process are always included; changes by others appear a little later. Admission never uses these views.
Durations in seconds.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from trimtab.actuator.cloud.provider import CloudError, CloudNodeTemplate, CloudProvider, NodeGroupView
from trimtab.actuator.service.group_details import GroupDetails
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.v1 import actuator_pb2

log = structlog.get_logger("status")

# Templates are kept this many times longer than sizes: configurations change seldom, and cost a call per group.
DETAIL_AGES = 12

# Events that change the cloud's answer.
CHANGES = (e.DeleteAccepted, e.InstanceGone, e.GrowthAnswered)


class CachedGroups(NamedTuple):
    """An answer of the cloud. asked_s : time of the call, steady seconds; changes : their number before it; details :
    by group, all that is configured. views : the groups.
    """

    views: Sequence[NodeGroupView]
    asked_s: float
    changes: int
    details: Mapping[str, actuator_pb2.NodeGroupStatus]
    # Provider ids by group, sorted; None = not asked for.
    instances: Mapping[str, Sequence[str]] | None = None
    # Groups whose templates have the amounts of machines, not of nodes.
    templates: Mapping[str, CloudNodeTemplate] = {}


class GroupViews:
    """Node groups, at most `max_age_s` old; 0 = the cloud is called each time. Thread-safe."""

    def __init__(self, cloud: CloudProvider, max_age_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cloud = cloud
        self._max_age_s = max_age_s
        self._clock = clock
        self._details = GroupDetails(cloud, max_age_s * DETAIL_AGES, clock)
        self._changes = 0
        self._cached: CachedGroups | None = None
        self._asking = threading.Lock()

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Count events that change the groups."""
        del tracker, now_ms
        if isinstance(event, CHANGES):
            self._changes += 1

    def get(self, with_instances: bool = False) -> CachedGroups:
        """Return the groups, sorted by id. Raises `CloudError`."""
        cached = self._known()
        if with_instances and cached.instances is None:
            instances = self._cloud.instances([view.id for view in cached.views])
            cached = cached._replace(
                instances={group: [member.id for member in members] for group, members in instances.items()}
            )
            self._cached = cached
        return cached

    def _known(self) -> CachedGroups:
        cached = self._cached
        age_s = None if cached is None else self._clock() - cached.asked_s
        if cached is None or age_s is None or cached.changes != self._changes or age_s >= self._max_age_s:
            return self._ask()
        if age_s > self._max_age_s / 2 and self._asking.acquire(blocking=False):
            # Started early enough for later callers.
            threading.Thread(target=self._refresh, name="groups", daemon=True).start()
        return cached

    def _ask(self) -> CachedGroups:
        changes, asked_s = self._changes, self._clock()
        views = self._cloud.node_groups()
        details = self._details.get(view.id for view in views)
        cached = CachedGroups(views, asked_s, changes, details, templates=self._details.of_machines())
        self._cached = cached
        return cached

    def _refresh(self) -> None:
        try:
            self._ask()
        except CloudError as error:
            log.info("node groups not read in advance", detail=str(error))
        finally:
            self._asking.release()
