"""The thread that checks node groups for failed activities and nodes that do not join, while this process leads.
Decides when they are checked; `activity_watch` and `group_keeper` decide what follows. Seconds.
"""

import threading
from typing import Final

import structlog

from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.kube.cluster import ClusterError
from trimtab.actuator.leadership import NotLeaderError
from trimtab.actuator.service.activity_watch import ActivityWatch
from trimtab.actuator.service.app import Actuator
from trimtab.actuator.service.group_keeper import GroupKeeper
from trimtab.actuator.store.records import StoreError

log = structlog.get_logger("groups")

POLL_S: Final = 10.0


class GroupWatch:
    """Checks every `POLL_S`, as a thread or as a `Task` (see `trimtab.actuator.runner.scheduler`)."""

    name = "node groups"

    def __init__(self, actuator: Actuator) -> None:
        self._processor = actuator.processor
        settings = actuator.settings
        self._steps = (
            # First: the others may wait for the cloud.
            actuator.processor.note_time,
            ActivityWatch(actuator.processor, actuator.cloud, settings.groups.backoff).step,
            GroupKeeper(actuator.processor, actuator.cluster, actuator.cloud, settings).step,
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
