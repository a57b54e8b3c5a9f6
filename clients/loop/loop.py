"""The loop: make rounds, only as leader, until stopped; retry failed rounds. Decides when a round is made: at once on
becoming leader, then every `interval_s`; after failures with growing pauses. Failures are reported in the log, the
status ConfigMap and the health endpoints. Never decides about the cluster. Unit: seconds.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog
from google.protobuf.timestamp_pb2 import Timestamp

from trimtab.clients.loop.advisory import Advisory
from trimtab.clients.loop.events import ClusterEvent, EventWriter
from trimtab.clients.loop.health import Health
from trimtab.clients.loop.kept_state import StateKeeper
from trimtab.clients.loop.loop_clock import LoopClock
from trimtab.clients.loop.round_text import round_text
from trimtab.clients.loop.rounds import RoundResult, RoundRunner
from trimtab.clients.loop.status_map import StatusMap
from trimtab.common.kubernetes.errors import KubernetesError, MissingPermissionError
from trimtab.common.kubernetes.lease import Lease
from trimtab.common.rpc.errors import TrimtabError
from trimtab.common.rpc.retries import Backoff, RetryPolicy, with_retries
from trimtab.v1 import plan_pb2

log = structlog.get_logger("loop")


@dataclass(frozen=True)
class LoopSettings:
    """When rounds are made."""

    # Seconds from the beginning of a round to that of the next. 10: upstream's `--scan-interval`.
    interval_s: float = 10.0
    # Rounds to make; 0 = until stopped.
    rounds: int = 0
    # Pauses after failed rounds.
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 60.0))


class LoopServices(NamedTuple):
    """Services that the loop uses. None = not used. `health` : answers probes; `lease` : leads one of several replicas;
    `status_map` : the status as a ConfigMap; `events` : writes Kubernetes events; `events_of` : which events a round
    makes; `states` : keeps the planner's state over restarts; `advisory` : counts what would have been done.
    """

    health: Health
    lease: Lease | None = None
    status_map: StatusMap | None = None
    events: EventWriter | None = None
    events_of: Sequence[Callable[[RoundResult], Iterable[ClusterEvent]]] = ()
    states: StateKeeper | None = None
    advisory: Advisory | None = None


class Loop:
    """Runs rounds. `stop` may be called from any thread or from a signal handler."""

    def __init__(
        self, rounds: RoundRunner, settings: LoopSettings, around: LoopServices, clock: LoopClock | None = None
    ) -> None:
        """`clock` gives the time for which plans are made."""
        self._rounds, self._settings, self._around = rounds, settings, around
        self._clock = clock or LoopClock()
        self._first_id = f"{int(self._clock.look().now_s * 1000):x}"
        self._stopped = threading.Event()
        self._count = self._attempts = 0
        # Whether the kept state has been loaded in this leadership.
        self._has_state = False
        self.last: RoundResult | None = None
        # The error of the last attempt, "" = none.
        self.trouble = ""

    def stop(self) -> None:
        """End soon: a round in progress is finished, but no further order is given."""
        self._stopped.set()

    def run(self) -> None:
        """Make rounds until `stop`. Errors: MissingPermissionError, for which a retry is useless."""
        try:
            self._run()
        finally:
            self._keep_state(is_last=True)

    def _run(self) -> None:
        while not self._stopped.is_set():
            begun_s = time.monotonic()
            if self._leads():
                if not self._make_round():
                    return
                if self._settings.rounds and self._count >= self._settings.rounds:
                    return
            else:
                self._follow()
            left_s = self._settings.interval_s - (time.monotonic() - begun_s)
            self._stopped.wait(max(left_s, 0.0) if self._leads() else min(max(left_s, 0.0), 1.0))

    def _follow(self) -> None:
        """Wait for leadership; the state belongs to another leader now."""
        self._has_state, self.trouble = False, ""
        self._around.health.not_ready = ""
        self._around.health.active()

    def _leads(self) -> bool:
        return self._around.lease is None or self._around.lease.is_held

    def _may_act(self) -> bool:
        return self._leads() and not self._stopped.is_set()

    def _make_round(self) -> bool:
        """Make one round; begin it again while it fails and this process leads. False = stopped after a failure."""
        policy = RetryPolicy(math.inf, math.inf, self._settings.backoff)
        try:
            with_retries(
                self._once, lambda error: policy if _is_transient(error) else None, self._stopped, self._note_failure
            )
        except (TrimtabError, KubernetesError) as error:
            if not _is_transient(error):
                raise
            return False
        return True

    def _once(self) -> None:
        """Make one round and report it."""
        if not self._leads():
            return
        self._resume()
        self._attempts += 1
        done = self._rounds.run(self._request_id(), _timestamp(self._look()), self._may_act)
        self._count += 1
        self.last, self.trouble = done, ""
        self._around.health.not_ready = ""
        self._around.health.active()
        self._report(done)
        self._keep_state()

    def _resume(self) -> None:
        """Load the state that the last leader kept. Errors: KubernetesError; the round is then tried again."""
        keeper = self._around.states
        if self._has_state or keeper is None:
            return
        self._rounds.resume(keeper.load(self._look()))
        self.last, self._has_state = None, True

    def _keep_state(self, is_last: bool = False) -> None:
        """Keep the planner's state, only as leader, and only one from this term of leadership."""
        keeper = self._around.states
        if keeper is not None and self.last is not None and self._has_state and self._leads():
            now_s = self._look()  # before the state is read: a clock step shifts its timers
            keeper.save(self.last.answer.state, now_s, is_last)

    def _note_failure(self, error: BaseException, attempt: int, pause_s: float) -> None:
        self.trouble = self._around.health.not_ready = str(error)
        log.warning("round_failed", attempt=attempt, pause_s=round(pause_s, 1), error=self.trouble)
        self._around.health.active()  # it is alive: a restart would not help
        self._write_status(self.last)

    def _report(self, done: RoundResult) -> None:
        """Log the round, write events and status."""
        growth, removal = done.answer.scale_up, done.answer.scale_down
        log.info(
            "round",
            text=round_text(done),
            request_id=done.request.request_id,
            delta=done.was_delta,
            nodes=done.answer.diagnostics.node_count,
            pods=done.answer.diagnostics.pod_count,
            decisions={
                plan_pb2.Decision.Code.Name(decision.decision): {"result": decision.result, **decision.counts}
                for decision in done.answer.diagnostics.decisions
            },
            grow={split.node_group: split.new_size for split in growth.splits},
            delete_empty=list(removal.delete_empty),
            drain=list(removal.drain),
            grown=done.grown,
            accepted=done.accepted,
            replaced=done.replaced,
            refused=done.refused,
            notes=done.notes,
        )
        around = self._around
        if around.advisory is not None:
            around.advisory.add(self._look(), done)
        # All are asked, whether their events are written or not: they count, too.
        found = [event for events_of in around.events_of for event in events_of(done)]
        if around.events is not None:
            around.events.put(found)
        self._write_status(done)

    def _write_status(self, done: RoundResult | None) -> None:
        """Write the ConfigMap; a failure is only logged."""
        if self._around.status_map is None:
            return
        try:
            self._around.status_map.write(done, self.trouble, self._look())
        except KubernetesError as error:
            log.warning("status_not_written", error=str(error))

    def _request_id(self) -> str:
        """Return a unique id, even if the clock is set back."""
        holder = self._around.lease.identity if self._around.lease is not None else "loop"
        return f"{holder[:80]}-{self._first_id}-{self._attempts}"

    def _look(self) -> float:
        """Return the time; log a step of the wall clock, and shift the timers of nodes by it."""
        now_s, step_s = self._clock.look()
        if step_s:
            log.warning("clock_stepped", step_s=round(step_s, 3), effect="timers of nodes are moved by the same")
            self._rounds.shift_timers(step_s)
        return now_s


def _timestamp(now_s: float) -> Timestamp:
    now = Timestamp()
    now.FromNanoseconds(int(now_s * 1e9))
    return now


def _is_transient(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    return isinstance(error, TrimtabError | KubernetesError) and not isinstance(error, MissingPermissionError)
