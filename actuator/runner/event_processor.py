"""The event processor: the only path by which events reach the journal.

Decides the order of events. Writes concurrent events in one transaction, and dispatches instructions only once their
events are durable. Thread-safe. Times are Unix milliseconds.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import structlog

from trimtab.actuator.kube.cluster import NotLeaderError
from trimtab.actuator.runner.clock import Clock
from trimtab.actuator.store.journal import Journal
from trimtab.actuator.store.records import StoreError
from trimtab.actuator.tracker.events import AbsenceEnded, ClockJumped, Event, TimeNoted
from trimtab.actuator.tracker.instructions import Instruction
from trimtab.actuator.tracker.tracker import Tracker

T = TypeVar("T")
# Returns the event for the tracker and the time given; None = no event. Must not change the tracker.
Proposal = Callable[[Tracker, int], Event | None]
# Called after each durable event, in order.
Listener = Callable[[Event, Tracker, int], None]

log = structlog.get_logger("processor")

# A restart makes deletions of the last hour seem younger by at most this, besides the time in which no actuator ran.
NOTE_TIME_MS = 60_000
# How long callers may still wait once the process is to end: taints are written within this time.
ENDING_S: Final = 2.0


class StoppingError(Exception):
    """The process ends before what a caller waits for has happened; the work continues after a restart."""

    def __init__(self) -> None:
        super().__init__("the actuator is stopping; its work continues after a restart, repeat the call then")


class _PendingProposal:
    """A proposal that waits for its result."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.done = False
        self.event: Event | None = None
        self.instructions: list[Instruction] = []
        self.error: Exception | None = None


class EventProcessor:
    """Tracker and store, safe to use from several threads."""

    def __init__(self, journal: Journal, clock: Clock, on_broken: Callable[[], None]) -> None:
        """Set up; `on_broken` is called once when the store fails: the process must end."""
        self._journal = journal
        self._clock = clock
        self._on_broken = on_broken
        self._lock = threading.Lock()
        self._queue_lock = threading.Lock()
        self._queue: list[_PendingProposal] = []
        self._changed = threading.Condition()
        # How often `wake_all` was called, and when waiting ends, in steady seconds; None = the process is not to end.
        self._wake_count = 0
        self._waits_until_s: float | None = None
        self._revision = journal.tracker.data.revision
        # Whether stored times were compared with the clock since the data were read.
        self._is_time_checked = False
        # Whether this process decides; a follower reads what the leader writes.
        self.leading = True
        # Identity of the leader, as last read, for callers of a follower.
        self.leader_name: Callable[[], str] = str
        self.dispatch: Callable[[Instruction], None] = _drop
        self.listeners: list[Listener] = []

    def submit(self, event: Event) -> None:
        """Record an event; durable when this returns. Raises `ImpossibleEventError`, `StoreError`."""
        self.propose(lambda _tracker, _now_ms: event)

    def propose(self, proposal: Proposal) -> Event | None:
        """Decide on the current data and record the decision, with no event in between.

        Raises what the proposal raises, `ImpossibleEventError`, `StoreError`, `NotLeaderError`.
        """
        self.check_leading()
        ticket = _PendingProposal(proposal)
        with self._queue_lock:
            self._queue.append(ticket)
        with self._lock:
            # The first caller processes everyone's proposals.
            if not ticket.done:
                with self._queue_lock:
                    batch, self._queue = self._queue, []
                self._run(batch)
        if ticket.error is not None:
            raise ticket.error
        return ticket.event

    def check_leading(self) -> None:
        """Raise `NotLeaderError` unless this process acts."""
        if not self.leading:
            raise NotLeaderError(self.leader_name())

    def read(self, look: Callable[[Tracker, int], T]) -> T:
        """Return the result of `look` on the data, which are all durable. `look` must keep no reference to it."""
        with self._lock:
            self._check_store()
            return look(self._journal.tracker, self._now())

    def note(self, events: Sequence[Event]) -> None:
        """Record what was found before work is resumed; nothing may follow from it. Raises `StoreError`."""
        with self._lock:
            self._check_store()
            self._check_times()
            for event in events:
                self._record(event, self._now())

    def note_time(self) -> None:
        """Record the time from time to time while deletions or sizes of the last hour count. Raises as `propose`."""
        self.propose(_time_to_note)

    def resume(self) -> None:
        """Dispatch the instructions after a restart; decisions are made only after that. Raises `StoreError`.

        An event recorded before its deletion is resumed, such as a cancellation, would be followed by outdated work.
        """
        with self._lock:
            self._check_store()
            self.leading = True
            self._check_times()
            for instruction in self._journal.tracker.resume():
                self.dispatch(instruction)
        self._notify_change()

    def refresh(self) -> None:
        """Read what the leader has written since. Raises `StoreError`."""
        with self._lock:
            self._journal.refresh()
            self._is_time_checked = False
        self._notify_change()

    @property
    def revision(self) -> int:
        """Return the number of the last durable event."""
        return self._revision

    def wait_for_change(self, revision: int, timeout_s: float) -> int:
        """Wait until the revision changes, or `wake_all` is called; returns the present one."""
        with self._changed:
            wake_count = self._wake_count
            self._changed.wait_for(lambda: (self._revision, self._wake_count) != (revision, wake_count), timeout_s)
            return self._revision

    def wait_until(self, reached: Callable[[Tracker, int], bool], timeout_s: float) -> bool:
        """Wait until a condition on the data holds; return whether it does. Raises `StoreError`, `StoppingError`, and
        what the condition raises.
        """
        until_s, revision = time.monotonic() + timeout_s, -1
        while True:
            ends_s = self._waits_until_s
            left_s = min(until_s, until_s if ends_s is None else ends_s) - time.monotonic()
            revision = self.wait_for_change(revision, max(0.0, left_s))
            if self.read(reached):
                return True
            if left_s <= 0:
                if ends_s is not None and ends_s < until_s:
                    raise StoppingError
                return False

    def wake_all(self) -> None:
        """Wake all callers of `wait_for_change`."""
        with self._changed:
            self._wake_count += 1
            self._changed.notify_all()

    def end_waiting(self) -> None:
        """Have callers of `wait_until` wait for some seconds more at most: the process is to end."""
        self._waits_until_s = time.monotonic() + ENDING_S
        self.wake_all()

    @property
    def broken(self) -> StoreError | None:
        """Return why nothing is being done any more; None = the store works."""
        return self._journal.broken

    def now_ms(self) -> int:
        """Return the present time."""
        return self._clock.now_ms()

    def steady_ms(self) -> int:
        """Return the steady time, for durations."""
        return self._clock.steady_ms()

    def awake_ms(self) -> int:
        """Return the steady time without that in which the process was suspended, for deadlines."""
        return self._clock.awake_ms()

    def beat(self) -> None:
        """Note that the process is awake."""
        self._clock.beat()

    def _check_times(self) -> None:
        """Compare stored times with the clock, before anything is recorded or decided: it may have been set while no
        actuator ran. Raises `StoreError`. Call under the lock.
        """
        if self._is_time_checked:
            return
        self._is_time_checked = True
        now_ms, tracker = self._now(), self._journal.tracker
        ahead_ms = max(tracker.latest_ms(), tracker.data.time_ms) - now_ms
        if ahead_ms > 0:
            log.warning("the clock is behind stored times; ages count from now", by_s=ahead_ms / 1000)
            self._move_times(-ahead_ms, now_ms)
        elif ahead_ms < 0 and (tracker.data.cloud_deletion_calls or tracker.data.node_counts):
            # How much of this is true is not known.
            self._record(AbsenceEnded(-ahead_ms), now_ms)

    def _check_store(self) -> None:
        """Raise `StoreError` when the store has failed or is no longer there."""
        if self._journal.broken is not None:
            raise self._journal.broken
        try:
            self._journal.check()
        except StoreError as error:
            self._break([], error)
            raise

    def _now(self) -> int:
        """Return the present time. A jump of the clock is recorded before any time is compared with it.

        Raises `StoreError`. Call under the lock.
        """
        now_ms, jump_ms = self._clock.take_jump()
        if jump_ms:
            log.warning("the clock has jumped; all ages are kept", by_s=jump_ms / 1000)
            # A follower's data, and the times in them, are the leader's.
            if self.leading:
                self._move_times(jump_ms, now_ms)
        return now_ms

    def _move_times(self, by_ms: int, now_ms: int) -> None:
        """Move all stored times: ages stay the same. Raises `StoreError`."""
        self._record(ClockJumped(by_ms), now_ms)

    def _record(self, event: Event, now_ms: int) -> None:
        """Record an event that no work follows from. Raises `StoreError`. Call under the lock."""
        self._journal.handle(event, now_ms)
        try:
            self._journal.commit()
        except StoreError as error:
            self._break([], error)
            raise
        self._notify_listeners(event, now_ms)
        self._notify_change()

    def _run(self, batch: list[_PendingProposal]) -> None:
        try:
            now_ms = self._now()
        except StoreError as error:
            self._end_all(batch, error)
            return
        for ticket in batch:
            try:
                ticket.event = ticket.proposal(self._journal.tracker, now_ms)
                if ticket.event is not None:
                    ticket.instructions = self._journal.handle(ticket.event, now_ms)
            except Exception as error:
                ticket.error = error
        try:
            self._journal.commit()
        except StoreError as error:
            self._break(batch, error)
            return
        for ticket in batch:
            ticket.done = True
            self._dispatch_all(ticket, now_ms)
        self._notify_change()

    def _dispatch_all(self, ticket: _PendingProposal, now_ms: int) -> None:
        if ticket.event is None or ticket.error is not None:
            return
        self._notify_listeners(ticket.event, now_ms)
        for instruction in ticket.instructions:
            self.dispatch(instruction)

    def _notify_listeners(self, event: Event, now_ms: int) -> None:
        """Call the listeners. The event is durable: one that fails must not keep its instructions from being carried
        out, nor those of other events.
        """
        for listener in self.listeners:
            try:
                listener(event, self._journal.tracker, now_ms)
            except Exception as error:
                log.error("a listener failed", about=type(event).__name__, exc_info=error)

    def _notify_change(self) -> None:
        with self._changed:
            self._revision = self._journal.tracker.data.revision
            self._changed.notify_all()

    def _break(self, batch: list[_PendingProposal], error: StoreError) -> None:
        log.error("the store failed; no further work until a restart", detail=str(error))
        self._end_all(batch, error)
        # What callers wait for does not happen any more.
        self.wake_all()
        self._on_broken()

    def _end_all(self, batch: list[_PendingProposal], error: StoreError) -> None:
        """End all proposals with an error."""
        for ticket in batch:
            ticket.done = True
            ticket.error = error


def _time_to_note(tracker: Tracker, now_ms: int) -> Event | None:
    data = tracker.data
    is_counting = bool(data.cloud_deletion_calls) or len(data.node_counts) > 1
    return TimeNoted() if is_counting and now_ms - data.time_ms >= NOTE_TIME_MS else None


def _drop(instruction: Instruction) -> None:
    raise AssertionError(f"no dispatcher for {instruction}")
