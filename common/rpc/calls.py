"""The open calls of a server, and how long it waits for their callers. Decides when a call is ended because its caller
makes no progress: a request that does not arrive, an answer that is not read. Each call takes a thread until it ends,
so slow callers must not keep out the others. Never reads messages. Times in seconds, monotonic. Safe between threads.

A call is *receiving* (its request is not whole yet), *working*, or *sending* (a message waits until the caller takes
it). Only receiving and sending calls are ended here. If the limit of open calls is reached, in total or for one caller,
a call that has waited for its caller for a while is ended to make room: the one that has waited longest, of the caller
with the most calls.

gRPC hands over the messages of a request by an iterator that waits without a limit, to interceptors too: as many slow
callers as the service has threads would stop it. So the iterator's own steps are taken here, with a limit; that these
are not public is checked at each call. Where gRPC has changed them, a thread waits for the messages of each request:
0.26 ms of CPU time a call, of 0.66 ms that a small one then takes.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

import grpc

from trimtab.common.rpc.errors import ServiceError, not_ready, overloaded, request_timeout

_LOOK_EVERY_S: Final = 0.25
_LAST_SEND_S: Final = 1.0
"""How long a message may wait to be read once the server stops."""


@dataclass(frozen=True)
class CallLimits:
    """How long a server waits for callers, and how many calls it accepts."""

    # Longest pause between two messages of a request, seconds. A piece of 1 MiB takes that long at 0.8 Mbit/s.
    idle_s: float = 10.0
    # Longest time a whole request may take to arrive, seconds.
    receive_s: float = 60.0
    # Longest time a message may wait until the caller takes it, seconds.
    send_s: float = 30.0
    # Calls open at the same time.
    most: int = 224
    # The same for one caller, so that none can keep out the others.
    most_of_caller: int = 112
    # A call whose request has taken this long, seconds, is ended if room is needed. Normal ones take less.
    room_after_s: float = 1.0
    # The same for an answer that is not read. The call then ends without a reason, so a busy client must not be hit.
    room_after_unread_s: float = 5.0


_STEPS: Final = ("_state", "_raise_or_start_receive_message", "_look_for_request")
"""Of gRPC's iterator of a request's messages: its state, with a condition; a step that asks for the next message; and
one that takes it, if it is there."""


class _End:
    """The request has ended."""


class OpenCall:
    """One call, from its start to its last byte."""

    def __init__(self, calls: "OpenCalls", context: grpc.ServicerContext) -> None:
        self._calls = calls
        self._context = context
        self._arrived: SimpleQueue[Any] = SimpleQueue()
        # Since when it waits for its caller; None while it is being handled.
        self.waits_since_s: float | None = time.monotonic()
        self.is_receiving = True
        # Its caller, once known.
        self.caller = ""
        # Guards against ending a call because its request is missing just when the request arrives.
        self._lock = threading.Lock()
        self._error: ServiceError | None = None
        # Wakes the thread that waits for the request; None = it waits for `_arrived`.
        self._woken_by: threading.Condition | None = None

    def receive(self, messages: Iterator[bytes]) -> Generator[bytes, None, None]:
        """Yield the messages of the request as they arrive. Raises ServiceError if they do not arrive in time."""
        if all(hasattr(messages, name) for name in _STEPS):
            yield from self._receive_here(messages)
            return
        wanted = threading.Semaphore(1)
        abandoned = threading.Event()
        threading.Thread(
            target=_pump, args=(messages, self._arrived, wanted, abandoned), name="receive", daemon=True
        ).start()
        try:
            yield from self._in_time(wanted)
        finally:
            abandoned.set()
            wanted.release()

    def _receive_here(self, messages: Any) -> Generator[bytes, None, None]:
        """Yield the messages as `receive`, in this thread, by the steps of gRPC's iterator."""
        limits, condition = self._calls.limits, messages._state.condition
        until_s = time.monotonic() + limits.receive_s
        self._woken_by = condition
        while True:
            left_s = until_s - time.monotonic()
            idle_until_s = time.monotonic() + max(min(limits.idle_s, left_s), 0.0)
            message: bytes | None = None
            try:
                with condition:
                    messages._raise_or_start_receive_message()
                    while message is None:
                        condition.wait(idle_until_s - time.monotonic())
                        if self._error is not None:
                            raise self._error
                        message = messages._look_for_request()
                        if message is None and time.monotonic() >= idle_until_s:
                            raise request_timeout(_too_late(limits, left_s))
            except StopIteration:
                return
            yield message

    def _in_time(self, wanted: threading.Semaphore) -> Generator[bytes, None, None]:
        limits = self._calls.limits
        until_s = time.monotonic() + limits.receive_s
        while True:
            left_s = until_s - time.monotonic()
            try:
                arrived = self._arrived.get(timeout=max(min(limits.idle_s, left_s), 0.0))
            except Empty:
                raise request_timeout(_too_late(limits, left_s)) from None
            if arrived is _End:
                return
            if isinstance(arrived, BaseException):
                raise arrived
            wanted.release()
            yield arrived

    def work(self) -> None:
        """Note that the call no longer waits for its caller. Raises ServiceError if it was ended just before."""
        with self._lock:
            self.waits_since_s, self.is_receiving = None, False
            error, self._error = self._error, None
        if error is not None:
            raise error

    def send(self) -> None:
        """Note that a message is on its way to the caller."""
        with self._lock:
            self.waits_since_s, self.is_receiving = time.monotonic(), False

    def end(self, error: ServiceError) -> None:
        """End a call that waits for its caller: with an error if one can be sent, else without."""
        with self._lock:
            if self.is_receiving:
                self._error = error
                self._arrived.put(error)
                if self._woken_by is not None:
                    with self._woken_by:
                        self._woken_by.notify_all()
                return
        self._context.cancel()  # type: ignore[no-untyped-call]


class OpenCalls:
    """All open calls of a server."""

    def __init__(self, limits: CallLimits) -> None:
        self.limits = limits
        self._changed = threading.Condition()
        self._open: set[OpenCall] = set()
        self._ended: set[OpenCall] = set()
        self._stopping = False

    def open(self, context: grpc.ServicerContext) -> OpenCall:
        """Return a new call. Raises ServiceError if the limit is reached and no call can be ended to make room."""
        call = OpenCall(self, context)
        with self._changed:
            if self._stopping:
                raise not_ready("the service is stopping; try again")
            if len(self._open) - len(self._ended) >= self.limits.most:
                self._make_room(
                    self._open - self._ended,
                    f"{self.limits.most} calls are open already; try again later (--max-workers)",
                )
            self._open.add(call)
        if not context.add_callback(lambda: self._forget(call)):
            self._forget(call)
        return call

    def belongs(self, call: OpenCall, caller: str) -> None:
        """Note the caller of a call. Raises ServiceError if its limit is reached and no call can be ended."""
        most = self.limits.most_of_caller
        with self._changed:
            others = {other for other in self._open - self._ended - {call} if other.caller == caller}
            call.caller = caller
            if len(others) >= most:
                message = f"{most} calls of this caller are open already; end some of them (--max-calls-per-caller)"
                self._make_room(others, message)

    def watch(self) -> None:
        """End calls whose messages are not read, until the server has stopped. Runs in a separate thread."""
        with self._changed:
            while not (self._stopping and not self._open):
                self._end_unread()
                self._changed.wait(_LOOK_EVERY_S)

    def stop(self, grace_s: float) -> None:
        """End calls whose request has not arrived; wait until the others are done, at most `grace_s`."""
        with self._changed:
            self._stopping = True
            for call in list(self._open - self._ended):
                if call.is_receiving:
                    self._end(call, not_ready("the service is stopping; try again"))
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._open, grace_s)

    def _forget(self, call: OpenCall) -> None:
        with self._changed:
            self._open.discard(call)
            self._ended.discard(call)
            self._changed.notify_all()

    def _end(self, call: OpenCall, error: ServiceError) -> None:
        self._ended.add(call)
        call.end(error)

    def _end_unread(self) -> None:
        longest_s = min(self.limits.send_s, _LAST_SEND_S) if self._stopping else self.limits.send_s
        # Includes ended calls: one whose request was missing may have been sending its first message already.
        for wait in _waiting(self._open):
            if wait.since_s + longest_s > time.monotonic():
                return
            if not wait.call.is_receiving:
                self._end(wait.call, request_timeout("the caller does not read the answer"))

    def _make_room(self, calls: Collection[OpenCall], refusal: str) -> None:
        """End one of these calls. Raises ServiceError OVERLOADED if none has waited for its caller long enough."""
        now_s, limits = time.monotonic(), self.limits
        late = [
            wait
            for wait in _waiting(calls)
            if now_s - wait.since_s >= (limits.room_after_s if wait.call.is_receiving else limits.room_after_unread_s)
        ]
        if not late:
            raise overloaded(refusal)
        counts = Counter(call.caller for call in calls)
        chosen = max(late, key=lambda wait: (counts[wait.call.caller], -wait.since_s))
        self._end(
            chosen.call, request_timeout("the request was the slowest to arrive and made way for others; send it again")
        )


class _Wait(NamedTuple):
    """A call that waits for its caller since a time, monotonic seconds; `number` orders equal times. `since_s` : the
    time.
    """

    since_s: float
    number: int
    call: OpenCall


def _waiting(calls: Iterable[OpenCall]) -> list[_Wait]:
    """Return the calls that wait for their callers, the longest wait first."""
    return sorted(_Wait(since_s, id(call), call) for call in calls if (since_s := call.waits_since_s))


def _pump(
    messages: Iterator[bytes], arrived: "SimpleQueue[Any]", wanted: threading.Semaphore, abandoned: threading.Event
) -> None:
    """Pass on each requested message. gRPC's own iterator offers no wait with a time limit."""
    try:
        while True:
            wanted.acquire()
            if abandoned.is_set():
                return
            message = next(messages, _End)
            arrived.put(message)
            if message is _End:
                return
    except Exception as error:
        arrived.put(error)


def _too_late(limits: CallLimits, left_s: float) -> str:
    if left_s <= limits.idle_s:
        return f"the request had not arrived whole after {limits.receive_s:g} s (--receive-timeout); send it faster"
    return f"nothing came for {limits.idle_s:g} s, and the request is not whole (--idle-timeout); send without pauses"
