"""The cloud's node groups for the status.

Decides when the cloud is asked: a status that is wanted again and again must neither wait for the cloud each time nor
burden it. What this process has done itself is always in it; what happens elsewhere is seen a little later. Whether a
deletion is accepted is never decided on this. Durations in seconds.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from actuator.cloud.provider import CloudError, CloudProvider, NodeGroupView
from actuator.tracker import events as e
from actuator.tracker.tracker import Tracker

log = structlog.get_logger("status")

# After these the cloud answers otherwise than before.
CHANGES = (e.DeleteAccepted, e.InstanceGone, e.GrowthAnswered)


class Kept(NamedTuple):
    """What the cloud has answered: when it was asked, and after how many changes."""

    views: Sequence[NodeGroupView]
    asked_s: float
    changes: int


class GroupViews:
    """Node groups, at most `max_age_s` old; 0 = the cloud is asked each time. Thread-safe."""

    def __init__(self, cloud: CloudProvider, max_age_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cloud = cloud
        self._max_age_s = max_age_s
        self._clock = clock
        self._changes = 0
        self._kept: Kept | None = None
        self._asking = threading.Lock()

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Take note of what changes the groups."""
        del tracker, now_ms
        if isinstance(event, CHANGES):
            self._changes += 1

    def get(self) -> Sequence[NodeGroupView]:
        """The groups, sorted by id. Raises `CloudError`."""
        kept = self._kept
        age_s = None if kept is None else self._clock() - kept.asked_s
        if kept is None or age_s is None or kept.changes != self._changes or age_s >= self._max_age_s:
            return self._ask()
        if age_s > self._max_age_s / 2 and self._asking.acquire(blocking=False):
            # In time for those who ask later.
            threading.Thread(target=self._ask_for_later, name="groups", daemon=True).start()
        return kept.views

    def _ask(self) -> Sequence[NodeGroupView]:
        changes, asked_s = self._changes, self._clock()
        views = self._cloud.node_groups()
        self._kept = Kept(views, asked_s, changes)
        return views

    def _ask_for_later(self) -> None:
        try:
            self._ask()
        except CloudError as error:
            log.info("node groups not read ahead", detail=str(error))
        finally:
            self._asking.release()
