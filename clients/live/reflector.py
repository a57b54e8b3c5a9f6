"""Keep one kind of objects up to date: list, then watch, until stopped.

Decides when to list again (the resource version is too old, or a watch is silent), when to continue a watch where it
ended, and how long to pause after a failure (like client-go; the server's hint is followed up to
a limit). A list whose later pages expire is read in one piece the next time, so that it ends even if pages expire
faster than they are read. Never interprets an object. Nothing is lost between list and watch: the watch begins at the
list's version, and each event advances it. Units: seconds.

Staleness is the time since the last evidence that nothing was missed: a complete list, an event or a bookmark. An open
watch is no evidence, as its connection may be dead. API servers send a bookmark about once a minute; a watch that stays
silent for longer is replaced by a list.

Source: Kubernetes API concepts, "Efficient detection of changes"; client-go, tools/cache/reflector.go, tools/pager
(FullListIfExpired).

The pause before it lists or watches again doubles with each call, with jitter, and is reset once no pause was needed
for a while. A successful list does not reset it: if every watch fails at once, lists succeed and must still become
rare. Source: client-go, tools/cache/reflector.go (800 ms to 30 s, factor 2, jitter 1, reset after 2 minutes).
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from trimtab.clients.live.lists import SilentWatchError, WatchStream, list_page, open_watch
from trimtab.common.kubernetes.api import Api, is_transient, pages
from trimtab.common.kubernetes.envelope import Frame, ListPage
from trimtab.common.kubernetes.errors import ApiError, KubernetesError, MalformedAnswerError, UnreachableError
from trimtab.common.kubernetes.registry import Resource


@dataclass(frozen=True)
class RelistBackoffSettings:
    """Bounds of the pauses. The defaults are client-go's."""

    # The first pause takes between this and twice this.
    first_s: float = 0.8
    # The pauses stop growing here; with jitter they take up to twice this.
    longest_s: float = 30.0
    # If there was no pause for this long, the next one is a first one again.
    reset_after_s: float = 120.0


class RelistBackoff:
    """The pauses of one reflector."""

    def __init__(
        self,
        settings: RelistBackoffSettings,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """`clock` is monotonic, in seconds; `draw` returns a number in [0, 1)."""
        self._settings, self._clock, self._draw = settings, clock, draw
        self._next_s = settings.first_s
        self._last_at_s: float | None = None

    def pause_s(self) -> float:
        """Return the length of the pause that begins now."""
        settings, now_s = self._settings, self._clock()
        if self._last_at_s is None or now_s - self._last_at_s > settings.reset_after_s:
            self._next_s = settings.first_s
        self._last_at_s = now_s
        pause_s = self._next_s * (1 + self._draw())
        self._next_s = min(2 * self._next_s, settings.longest_s)
        return pause_s


log = structlog.get_logger("live_cluster")

MOST_WATCH_FAILURES: Final = 5
"""Consecutive failures of a watch after which the kind is listed again: the server may no longer know the version."""
SHORT_WATCH_S: Final = 1.0
"""A watch that ends sooner without a change of an object counts as failed: bookmarks alone do not avoid the pause."""


@dataclass(frozen=True)
class ReflectorSettings:
    """How a kind is listed and watched."""

    # Objects on one page of a list. 5,000 pods are about 13 MiB.
    page_limit: int = 5000
    # Seconds after which the server ends a watch, so that a dead connection is noticed. client-go: 5 to 10 minutes.
    watch_timeout_s: float = 300.0
    # Longest silence of the server in a page of a list, seconds.
    list_timeout_s: float = 60.0
    # Seconds without event and bookmark after which a kind is listed again. API servers send a bookmark every minute.
    silence_s: float = 75.0
    # Seconds without list, event and bookmark after which the cluster's state counts as unknown. More than `silence_s`.
    max_stale_s: float = 120.0
    # Longest pause that a server may ask for (Retry-After), seconds.
    max_retry_after_s: float = 30.0
    # Pauses after failures.
    backoff: RelistBackoffSettings = field(default_factory=RelistBackoffSettings)


class Sink(Protocol):
    """The receiver of the objects. Calls come from one thread per kind."""

    def put(self, kind: str, objects: Sequence[bytes]) -> None:
        """Receive encoded objects: new, changed or unchanged."""

    def drop(self, kind: str, raw: bytes) -> None:
        """Forget an object; `raw` is its last state."""

    def listing(self, kind: str) -> None:
        """A list begins: objects that are not put before `listed` are gone."""

    def listed(self, kind: str) -> None:
        """The list is complete."""


class Reflector:
    """List and watch of one kind."""

    def __init__(self, api: Api, resource: Resource, sink: Sink, settings: ReflectorSettings | None = None) -> None:
        self.resource = resource
        self.settings = settings or ReflectorSettings()
        # The last failure, "" = none since the last success.
        self.trouble = ""
        # Counts for metrics and tests.
        self.lists, self.watches, self.failures = 0, 0, 0
        self._api, self._sink = api, sink
        self._backoff = RelistBackoff(self.settings.backoff)
        # Monotonic seconds of the last evidence that nothing was missed; None = never listed.
        self._confirmed_at_s: float | None = None
        self._watch_failures = 0
        # Whether pages of the last list expired.
        self._is_in_one_piece = False
        self._version = ""
        # Version of the last change received by a watch.
        self._changed_at = ""
        self._stopped = threading.Event()
        self._stream: WatchStream | None = None
        self._guard = threading.Lock()

    @property
    def stale_s(self) -> float:
        """Seconds since the last list, event or bookmark; 0 before the first list."""
        confirmed_at_s = self._confirmed_at_s
        return 0.0 if confirmed_at_s is None else time.monotonic() - confirmed_at_s

    def run(self) -> None:
        """List and watch until `stop`. Errors: permanent failures (a forbidden verb)."""
        self._version = ""
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except _StoppedError:
                return
            except SilentWatchError as error:
                self._version = ""
                log.info("watch_silent", kind=self.resource.kind, stale_s=round(self.stale_s, 1), error=str(error))
            except KubernetesError as error:
                if not _is_transient(error, self.resource):
                    raise
                self._pause(error)

    def stop(self) -> None:
        """End `run` soon and wake a waiting watch."""
        self._stopped.set()
        with self._guard:
            if self._stream is not None:
                self._stream.close()

    def _pause(self, error: KubernetesError) -> None:
        """Note a failure and wait: longer after each one, and within a limit as long as the server asks."""
        self.failures += 1
        self.trouble = str(error)
        hint_s = error.retry_after_s if isinstance(error, ApiError) else None
        pause_s = max(self._backoff.pause_s(), min(hint_s or 0.0, self.settings.max_retry_after_s))
        log.warning(
            "cluster_retry",
            kind=self.resource.kind,
            step="watch" if self._version else "list",
            pause_s=round(pause_s, 3),
            stale_s=round(self.stale_s, 1),
            error=self.trouble,
        )
        self._stopped.wait(pause_s)

    def _confirm(self) -> None:
        """Note that nothing was missed until now."""
        self.trouble, self._confirmed_at_s = "", time.monotonic()

    def _list(self) -> None:
        """List all objects, page by page. Errors: ApiError (expired: a page's token is too old), UnreachableError."""
        self._sink.listing(self.resource.kind)
        for page in pages(self._read_page, self.resource.path):
            self._sink.put(self.resource.kind, page.items)
            if page.next_page and self._stopped.is_set():
                raise _StoppedError
        self._sink.listed(self.resource.kind)
        self._version = page.resource_version
        self._watch_failures, self._is_in_one_piece = 0, False
        self.lists += 1
        self._confirm()

    def _read_page(self, token: str) -> ListPage:
        """Return the page of a token; once a token has expired, the next list is read in one piece."""
        limit = 0 if self._is_in_one_piece else self.settings.page_limit
        try:
            return list_page(self._api, self.resource, limit, token, self.settings.list_timeout_s)
        except ApiError as error:
            self._is_in_one_piece = error.is_expired and bool(token)
            raise

    def _watch(self) -> None:
        """Follow one watch to its end; the next continues there. Raises KubernetesError if it failed or was short."""
        begun_s, known = time.monotonic(), self._changed_at
        try:
            self._follow()
            is_short = time.monotonic() - begun_s < SHORT_WATCH_S
            # The next one begins after the last change, so it cannot deliver the same changes repeatedly.
            if is_short and self._changed_at == known and not self._stopped.is_set():
                raise UnreachableError("a watch ended at once, without a change")
        except SilentWatchError:
            raise
        except KubernetesError as error:
            self._watch_failures += 1
            is_expired = isinstance(error, ApiError) and error.is_expired
            if is_expired or self._watch_failures >= MOST_WATCH_FAILURES:
                self._version = ""
            raise
        if self.stale_s > self.settings.silence_s:
            raise SilentWatchError("a watch ended without an event or a bookmark")

    def _follow(self) -> None:
        """Pass on the events of one watch. A lost connection after the first one is not an error."""
        has_seen, settings = False, self.settings
        try:
            stream = open_watch(self._api, self.resource, self._version, settings.watch_timeout_s, settings.silence_s)
            with self._guard:
                self._stream = stream
            if self._stopped.is_set():
                stream.close()
            self.watches += 1
            for frame in stream:
                self._take(frame)
                self._confirm()
                self._watch_failures = 0
                has_seen = True
        except SilentWatchError:
            raise
        except UnreachableError:
            if not has_seen:
                raise
        finally:
            with self._guard:
                self._stream = None

    def _take(self, frame: Frame) -> None:
        """Pass an event on and remember its version."""
        if frame.type == "ERROR":
            raise self.resource.encoding.error_of(frame.raw)
        if frame.type in ("ADDED", "MODIFIED"):
            self._sink.put(self.resource.kind, [frame.raw])
        elif frame.type == "DELETED":
            self._sink.drop(self.resource.kind, frame.raw)
        elif frame.type != "BOOKMARK":
            raise MalformedAnswerError(f"a watch event has the unknown type {frame.type!r}")
        self._version = self.resource.encoding.version_of(frame.raw) or self._version
        if frame.type != "BOOKMARK":
            self._changed_at = self._version


class _StoppedError(Exception):
    """`stop` was called."""


def _is_transient(error: KubernetesError, resource: Resource) -> bool:
    """Return whether a repetition may succeed. Every cluster has the built-in kinds: an answer that one is not known is
    that of a server that starts, or of a proxy, and does not mean that there are no such objects.
    """
    if is_transient(error):
        return True
    return isinstance(error, ApiError) and (error.is_expired or (error.status == 404 and not resource.is_custom))
