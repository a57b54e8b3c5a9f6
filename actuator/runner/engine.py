"""The engine: the one gate through which events reach the journal.

Decides the order of events, writes those of callers that come together in one transaction (group commit), and gives
instructions out only when they are durable. Thread-safe. Times are Unix milliseconds.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

import structlog

from actuator.leadership import NotLeaderError
from actuator.store.journal import Journal
from actuator.store.records import StoreError
from actuator.tracker.events import Event
from actuator.tracker.instructions import Instruction
from actuator.tracker.tracker import Tracker

T = TypeVar("T")
# Looks at the tracker and the time, and says what happens; None = nothing. Must not change the tracker.
Proposal = Callable[[Tracker, int], Event | None]
# Called after each durable event, in order.
Listener = Callable[[Event, Tracker, int], None]

log = structlog.get_logger("engine")


class _Ticket:
    """A proposal on its way."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.done = False
        self.event: Event | None = None
        self.instructions: list[Instruction] = []
        self.error: Exception | None = None


class Engine:
    """Tracker and store for many threads."""

    def __init__(self, journal: Journal, clock: Callable[[], float], on_broken: Callable[[], None]) -> None:
        """`clock` gives Unix seconds; `on_broken` is called once when the store fails: the process must end."""
        self._journal = journal
        self._clock = clock
        self._on_broken = on_broken
        self._now_ms = 0
        self._lock = threading.Lock()
        self._queue_lock = threading.Lock()
        self._queue: list[_Ticket] = []
        self._changed = threading.Condition()
        self._revision = journal.tracker.memory.revision
        # Whether this process decides; one that follows reads what the leader writes.
        self.leading = True
        # Who leads, as last seen, for those who ask the wrong one.
        self.leader_name: Callable[[], str] = str
        self.dispatch: Callable[[Instruction], None] = _drop
        self.listeners: list[Listener] = []

    def submit(self, event: Event) -> None:
        """Record an event; durable when this returns. Raises `ImpossibleEventError`, `StoreError`."""
        self.propose(lambda _tracker, _now_ms: event)

    def propose(self, proposal: Proposal) -> Event | None:
        """Decide on the present memory and record what was decided, with nothing in between.

        Raises what the proposal raises, `ImpossibleEventError`, `StoreError`, `NotLeaderError`.
        """
        if not self.leading:
            raise NotLeaderError(self.leader_name())
        ticket = _Ticket(proposal)
        with self._queue_lock:
            self._queue.append(ticket)
        with self._lock:
            # Whoever comes first takes everybody's proposals with it.
            if not ticket.done:
                with self._queue_lock:
                    batch, self._queue = self._queue, []
                self._run(batch)
        if ticket.error is not None:
            raise ticket.error
        return ticket.event

    def read(self, look: Callable[[Tracker, int], T]) -> T:
        """Look at the memory, of which everything is durable. `look` must keep no reference into it."""
        with self._lock:
            if self._journal.broken is not None:
                raise self._journal.broken
            return look(self._journal.tracker, self._now())

    def resume(self) -> None:
        """Give out what is to be done after a restart."""
        for instruction in self.read(lambda tracker, _now_ms: tracker.resume()):
            self.dispatch(instruction)

    def refresh(self) -> None:
        """Read what the leader has written meanwhile. Raises `StoreError`."""
        with self._lock:
            self._journal.refresh()
        self._tell_change()

    def lead(self) -> None:
        """Decide from now on, on everything written so far. Raises `StoreError`."""
        with self._lock:
            self._journal.refresh()
            self.leading = True
        self._tell_change()

    def wait_for_change(self, revision: int, timeout_s: float) -> int:
        """Wait until the revision is another one; returns the present one."""
        with self._changed:
            self._changed.wait_for(lambda: self._revision != revision, timeout_s)
            return self._revision

    def wake_all(self) -> None:
        """Let all who wait for a change look again."""
        with self._changed:
            self._changed.notify_all()

    @property
    def broken(self) -> StoreError | None:
        """Why nothing is done any more; None = all is well."""
        return self._journal.broken

    def now_ms(self) -> int:
        """The present time."""
        return int(self._clock() * 1000)

    def _now(self) -> int:
        """The present time, never before the last one: a clock that goes back makes nothing young again."""
        self._now_ms = max(self._now_ms, self.now_ms())
        return self._now_ms

    def _run(self, batch: list[_Ticket]) -> None:
        now_ms = self._now()
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
            self._give_out(ticket, now_ms)
        self._tell_change()

    def _give_out(self, ticket: _Ticket, now_ms: int) -> None:
        if ticket.event is None or ticket.error is not None:
            return
        for listener in self.listeners:
            listener(ticket.event, self._journal.tracker, now_ms)
        for instruction in ticket.instructions:
            self.dispatch(instruction)

    def _tell_change(self) -> None:
        with self._changed:
            self._revision = self._journal.tracker.memory.revision
            self._changed.notify_all()

    def _break(self, batch: list[_Ticket], error: StoreError) -> None:
        log.error("the store failed; nothing more is done before a restart", detail=str(error))
        for ticket in batch:
            ticket.done = True
            ticket.error = error
        self._on_broken()


def _drop(instruction: Instruction) -> None:
    raise AssertionError(f"nobody carries out {instruction}")
