"""Keeps one kind of objects up to date: list, then watch, for as long as it is not told to stop.

Decides when to list anew (the resource version is too old), when to go on where it was (the watch ended or was cut),
and how long to pause (longer after each failure in a row, at least as long as the server asks). Never interprets an
object. Nothing is lost between list and watch: the watch begins at the list's version, and each event moves it on.
Units: seconds.

Source: Kubernetes API concepts, "Efficient detection of changes".
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from tenacity import RetryCallState, Retrying, retry_if_exception
from tenacity.nap import sleep_using_event
from trimtab.k8s.v1 import meta_pb2

from clients.kubernetes_api.api import Api, may_pass, retry_hint_s
from clients.kubernetes_api.envelope import Frame, parsed, resource_version_of, status_error
from clients.kubernetes_api.errors import ApiError, ClusterError, MalformedAnswerError, UnreachableError
from clients.live_cluster.lists import WatchStream, list_page, open_watch
from clients.live_cluster.resources import Resource
from clients.transport.backoff import Backoff

log = structlog.get_logger("live_cluster")


@dataclass(frozen=True)
class ReflectorSettings:
    """How a kind is listed and watched."""

    # Objects on one page of a list. 5,000 pods are some 13 MiB.
    page_limit: int = 5000
    # Seconds after which the server ends a watch, so that a dead connection is noticed. client-go: 5 to 10 minutes.
    watch_timeout_s: float = 300.0
    # Longest silence of the server in a page of a list, seconds.
    list_timeout_s: float = 60.0
    # Seconds without success after which the cluster counts as not known.
    max_stale_s: float = 60.0
    # Pauses after failures. client-go: 0.8 to 30 s.
    backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 30.0))


class Sink(Protocol):
    """Who takes the objects. Calls come from one thread per kind."""

    def put(self, kind: str, objects: Sequence[bytes]) -> None:
        """Take encoded objects that are new or changed, or the same as before."""

    def drop(self, kind: str, raw: bytes) -> None:
        """Forget an object; `raw` is its last state."""

    def listing(self, kind: str) -> None:
        """A list begins: what is not put until `listed` is gone."""

    def listed(self, kind: str) -> None:
        """The list is complete."""


class Reflector:
    """List and watch of one kind."""

    def __init__(self, api: Api, resource: Resource, sink: Sink, settings: ReflectorSettings | None = None) -> None:
        self.resource = resource
        self.settings = settings or ReflectorSettings()
        # What went wrong last, "" = nothing since the last success.
        self.trouble = ""
        # Counts for metrics and tests.
        self.lists, self.watches, self.failures = 0, 0, 0
        # Since when nothing has succeeded, monotonic seconds; None = all is well. A watch that is open is well.
        self._failing_since_s: float | None = None
        self._is_open = False
        self._api, self._sink = api, sink
        self._version = ""
        self._stopped = threading.Event()
        self._stream: WatchStream | None = None
        self._guard = threading.Lock()

    @property
    def stale_s(self) -> float:
        """For how long changes have been missed, as far as is known; 0 = they come."""
        since_s = self._failing_since_s
        return 0.0 if since_s is None or self._is_open else time.monotonic() - since_s

    def run(self) -> None:
        """List and watch until `stop`. Errors: what no repetition can mend (a forbidden verb)."""
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._patiently(self._list)
                self._patiently(self._watch)
            except _StartAgainError:
                self._version = ""
            except _StoppedError:
                return

    def stop(self) -> None:
        """End `run` soon; a waiting watch is woken."""
        self._stopped.set()
        with self._guard:
            if self._stream is not None:
                self._stream.close()

    def _patiently(self, step: "_Step") -> None:
        """Do a step again and again until it succeeds."""
        backoff = self.settings.backoff

        def wait(state: RetryCallState) -> float:
            return max(retry_hint_s(state) or 0.0, backoff.first_s / 2, backoff.pause_s(state))

        def note(state: RetryCallState) -> None:
            self.failures += 1
            self.trouble = str(state.outcome.exception()) if state.outcome else ""
            if self._failing_since_s is None:
                self._failing_since_s = time.monotonic()
            log.warning("cluster_retry", kind=self.resource.kind, attempt=state.attempt_number, error=self.trouble)

        retrying = Retrying(
            retry=retry_if_exception(_may_pass), wait=wait, before_sleep=note, sleep=self._sleep, reraise=True
        )
        retrying(self._unless_stopped, step)
        self._succeed()

    def _succeed(self) -> None:
        self.trouble, self._failing_since_s = "", None

    def _sleep(self, seconds: float) -> None:
        sleep_using_event(self._stopped)(seconds)

    def _unless_stopped(self, step: "_Step") -> None:
        if self._stopped.is_set():
            raise _StoppedError
        step()

    def _list(self) -> None:
        """List all objects, page by page. A token that is too old starts the list again."""
        self._sink.listing(self.resource.kind)
        next_page, version = "", ""
        while True:
            try:
                page = list_page(
                    self._api, self.resource, self.settings.page_limit, next_page, self.settings.list_timeout_s
                )
            except ApiError as error:
                if error.is_expired:
                    raise _ExpiredError(str(error)) from error
                raise
            self._sink.put(self.resource.kind, page.items)
            version, next_page = page.resource_version, page.next_page
            if not next_page:
                break
            if self._stopped.is_set():
                raise _StoppedError
        self._sink.listed(self.resource.kind)
        self._version = version
        self.lists += 1

    def _watch(self) -> None:
        """Follow one watch to its end. Being cut after the first event is no failure: go on from there."""
        begun, seen = time.monotonic(), 0
        try:
            stream = open_watch(self._api, self.resource, self._version, self.settings.watch_timeout_s)
            with self._guard:
                self._stream = stream
            if self._stopped.is_set():
                stream.close()
            self.watches += 1
            self._is_open = True
            for frame in stream:
                self._take(frame)
                self._succeed()
                seen += 1
        except UnreachableError:
            if not seen:
                raise
        except ApiError as error:
            if error.is_expired:
                raise _StartAgainError from error
            raise
        finally:
            self._is_open = False
            with self._guard:
                self._stream = None
        if not seen and time.monotonic() - begun < 1 and not self._stopped.is_set():
            raise UnreachableError("a watch ended at once, without an event")

    def _take(self, frame: Frame) -> None:
        """Pass an event on and remember how far we are."""
        if frame.type == "ERROR":
            raise status_error(parsed(meta_pb2.Status, frame.raw))
        if frame.type in ("ADDED", "MODIFIED"):
            self._sink.put(self.resource.kind, [frame.raw])
        elif frame.type == "DELETED":
            self._sink.drop(self.resource.kind, frame.raw)
        elif frame.type != "BOOKMARK":
            raise MalformedAnswerError(f"a watch event has the unknown type {frame.type!r}")
        self._version = resource_version_of(frame.raw) or self._version


class _Step(Protocol):
    def __call__(self) -> None: ...


class _StoppedError(Exception):
    """We were told to stop."""


class _StartAgainError(Exception):
    """Only a new list helps."""


class _ExpiredError(ClusterError):
    """A page's token is too old."""


def _may_pass(error: BaseException) -> bool:
    """Whether doing the same again may help."""
    return isinstance(error, _ExpiredError) or may_pass(error)
