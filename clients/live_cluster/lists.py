"""The calls of a watcher: a page of a list, and a watch, both in Kubernetes' protobuf encoding.

Decides how such a call looks. Never repeats one and never reads an object. Units: seconds.
"""

from collections.abc import Iterator

import urllib3
from urllib3.exceptions import HTTPError

from clients.kubernetes_api.api import Api
from clients.kubernetes_api.connection import Request
from clients.kubernetes_api.envelope import PROTOBUF, WATCH, Frame, Page, read_frames, read_page
from clients.kubernetes_api.errors import UnreachableError
from clients.live_cluster.resources import Resource

WATCH_CHUNK = 1 << 16
"""Bytes read from a watch at a time, at most; what has come is passed on at once."""
_GRACE_S = 15.0
"""A server that says nothing for so long after it should have ended a watch is taken for dead."""


def list_page(api: Api, resource: Resource, limit: int, next_page: str, timeout_s: float) -> Page:
    """Return a page of at most `limit` objects. Errors: ApiError, UnreachableError, MalformedAnswerError."""
    query = {"limit": str(limit)} | ({"continue": next_page} if next_page else {})
    return read_page(api.read(Request("GET", resource.path, query, PROTOBUF, read_timeout_s=timeout_s)))


def open_watch(api: Api, resource: Resource, resource_version: str, timeout_s: float) -> "WatchStream":
    """Open a watch that the server ends after `timeout_s`; bookmarks included. Errors: ApiError, UnreachableError."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(max(1, int(timeout_s))),
    }
    # The server ends the watch; silence well beyond that means that the connection is dead.
    return WatchStream(api.open(Request("GET", resource.path, query, WATCH, read_timeout_s=timeout_s + _GRACE_S)))


class WatchStream:
    """An open watch. Iterate over its frames; `close` may be called from any thread and ends the iteration."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._closed = False

    def __iter__(self) -> Iterator[Frame]:
        """Yield frames until the server or `close` ends the watch. Errors: UnreachableError, MalformedAnswerError."""
        try:
            yield from read_frames(self._chunks())
        except (HTTPError, OSError, ValueError) as error:
            if not self._closed:
                raise UnreachableError(f"a watch was cut off: {error}") from error
        finally:
            self._response.close()

    def close(self) -> None:
        """End the watch: a reader that waits is woken."""
        self._closed = True
        self._response.shutdown()

    def _chunks(self) -> Iterator[bytes]:
        """Yield what has come as soon as it has come."""
        while not self._closed:
            chunk = self._response.read1(WATCH_CHUNK)
            if not chunk:
                return
            yield chunk
