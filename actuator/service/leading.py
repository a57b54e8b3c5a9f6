"""Leadership: the Lease decides who leads, the epoch of the store stops all others from acting.

Decides when this process begins to act, and ends it when it may no longer act. Each call that changes something first
checks both: the Lease, which depends on a clock and may be wrong in a process that was suspended, and the store, which
records who took over last. Every write to the store checks the epoch again in its own transaction.
"""

import threading
from collections.abc import Callable
from typing import Protocol

import structlog

from trimtab.actuator.cloud.provider import CloudError
from trimtab.actuator.kube.cluster import ClusterError, NotLeaderError
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.store.records import Store, StoreConflictError, StoreError
from trimtab.common.kubernetes.lease import Lease

log = structlog.get_logger("leading")

# How often a follower reads what the leader has written.
FOLLOW_S = 0.5


class Leader(Protocol):
    """The part of the actuator that leads."""

    processor: EventProcessor

    def lead(self) -> None:
        """Start to act."""


class Leadership:
    """The roles of one process: follower, then leader, until its end."""

    def __init__(self, lease: Lease, store: Store, end_process: Callable[[], None]) -> None:
        self._lease = lease
        self._store = store
        self._end_process = end_process
        self._stopped = threading.Event()
        # Why the process ends; None = by a signal.
        self.lost: str | None = None
        self._acting = False

    @property
    def leader_name(self) -> str:
        """Return the identity of the leader, as last read."""
        return self._lease.holder

    def guard(self) -> None:
        """Raise `NotLeaderError` unless this process may change something now. Thread-safe."""
        if not self._acting or not self._lease.is_held:
            raise NotLeaderError(self._lease.holder)
        try:
            self._store.confirm()
        except StoreConflictError as error:
            self._end(str(error))
            raise NotLeaderError(self._lease.holder) from error
        except StoreError as error:
            raise ClusterError(f"it is unknown whether this process leads: {error}") from error

    def may_act(self) -> bool:
        """Return whether this process leads, without reading the store."""
        return self._acting and self._lease.is_held

    def begin(self, leader: Leader, prepare: Callable[[], None]) -> None:
        """Follow, and try to lead; `prepare` runs before the first action."""
        threading.Thread(target=self._follow, args=(leader.processor,), name="follow", daemon=True).start()
        self._lease.start(lambda: self._gain(leader, prepare), lambda: self._end("the Lease was lost"))

    def stop(self) -> None:
        """Stop acting and release the Lease."""
        self._acting = False
        self._stopped.set()
        self._lease.stop()

    def _gain(self, leader: Leader, prepare: Callable[[], None]) -> None:
        try:
            epoch = self._store.take_over()
            log.info("taken over", epoch=epoch, identity=self._lease.identity)
            self._acting = True
            prepare()
            leader.lead()
        except (ClusterError, CloudError, StoreError, NotLeaderError) as error:
            self._end(f"could not take over: {error}")
        except Exception as error:
            # The Lease would be renewed for ever by a process that does nothing.
            log.error("could not take over", exc_info=error)
            self._end(f"could not take over: {error!r}")

    def _follow(self, processor: EventProcessor) -> None:
        while not self._stopped.wait(FOLLOW_S) and not self._acting:
            try:
                processor.refresh()
            except StoreError as error:
                # If the store is damaged, that stops the leader.
                log.warning("the store cannot be followed", detail=str(error))

    def _end(self, why: str) -> None:
        if self._stopped.is_set():
            return
        self._acting = False
        self.lost = why
        self._stopped.set()
        self._end_process()
