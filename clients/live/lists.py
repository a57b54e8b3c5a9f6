"""The requests of a reflector: a page of a list, and a watch, both in the encoding of the kind.

Decides path, query and encoding. Never repeats a request and never reads an object. Units: seconds.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from trimtab.common.kubernetes.api import Api
from trimtab.common.kubernetes.connection import ApiRequest
from trimtab.common.kubernetes.envelope import Frame, ListPage
from trimtab.common.kubernetes.errors import UnreachableError
from trimtab.common.kubernetes.registry import Resource

WATCH_CHUNK = 1 << 16
"""Largest number of bytes read from a watch at a time; bytes that have arrived are passed on at once."""


class SilentWatchError(UnreachableError):
    """A watch is open, but the server sent nothing for too long, not even a bookmark."""


def list_page(api: Api, resource: Resource, limit: int, next_page: str, timeout_s: float) -> ListPage:
    """Return a page of at most `limit` objects, 0 = all. Errors: ApiError, UnreachableError, MalformedAnswerError."""
    query = ({"limit": str(limit)} if limit else {}) | ({"continue": next_page} if next_page else {})
    encoding = resource.encoding
    request = ApiRequest("GET", resource.path, query, encoding.listed_as, read_timeout_s=timeout_s)
    return encoding.read_page(api.read(request))


def open_watch(
    api: Api, resource: Resource, resource_version: str, timeout_s: float, silence_s: float
) -> "WatchStream":
    """Open a watch with bookmarks, which the server ends after `timeout_s`.

    silence_s : longest pause between two pieces of data. Errors: ApiError, UnreachableError.
    """
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(max(1, int(timeout_s))),
    }
    encoding = resource.encoding
    response = api.open(ApiRequest("GET", resource.path, query, encoding.watched_as, read_timeout_s=silence_s))
    return WatchStream(response, time.monotonic() + timeout_s + silence_s, encoding.read_frames)


class WatchStream:
    """An open watch. Iterate over its frames; `close` may be called from any thread and ends the iteration."""

    def __init__(
        self,
        response: urllib3.BaseHTTPResponse,
        end_s: float,
        read_frames: Callable[[Iterable[bytes]], Iterator[Frame]],
    ) -> None:
        """`end_s` : monotonic time at which the watch is ended here, in case the server does not end it."""
        self._response, self._end_s, self._read_frames = response, end_s, read_frames
        self._closed = False

    def __iter__(self) -> Iterator[Frame]:
        """Yield frames until the watch ends. Errors: SilentWatchError, UnreachableError, MalformedAnswerError."""
        try:
            yield from self._read_frames(self._chunks())
        except ReadTimeoutError as error:
            if not self._closed:
                raise SilentWatchError("a watch is open, but nothing arrives, not even a bookmark") from error
        except (HTTPError, OSError, ValueError) as error:
            if not self._closed:
                raise UnreachableError(f"a watch was cut off: {error}") from error
        finally:
            self._response.close()

    def close(self) -> None:
        """End the watch and wake a reader that waits."""
        self._closed = True
        # A reader that has just ended has closed the response itself, and does not wait.
        with suppress(OSError, ValueError, RuntimeError):
            self._response.shutdown()

    def _chunks(self) -> Iterator[bytes]:
        """Yield bytes as soon as they arrive."""
        while not self._closed and time.monotonic() < self._end_s:
            chunk = self._response.read1(WATCH_CHUNK)
            if not chunk:
                return
            yield chunk
