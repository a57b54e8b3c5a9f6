"""The calls to an API server that a watcher makes: a page of a list, a watch, may-I, and small JSON calls.

Decides how a call looks and which error an answer is. Never repeats a call. Units: seconds.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from clients.live_cluster.connection import Connection, Request
from clients.live_cluster.envelope import PROTOBUF, WATCH, Frame, Page, read_error, read_frames, read_page
from clients.live_cluster.errors import UnreachableError
from clients.live_cluster.resources import Resource

WATCH_CHUNK = 1 << 16
"""Bytes read from a watch at a time, at most; what has come is passed on at once."""


class Api:
    """Calls to one API server. Safe to use from several threads. Errors of every method: ApiError, UnreachableError."""

    def __init__(self, connection: Connection, list_timeout_s: float = 60.0) -> None:
        self.connection = connection
        self._list_timeout_s = list_timeout_s

    def page(self, resource: Resource, limit: int, next_page: str = "") -> Page:
        """Return a page of at most `limit` objects. Errors: also MalformedAnswerError."""
        query = {"limit": str(limit)} | ({"continue": next_page} if next_page else {})
        request = Request("GET", resource.path, query, PROTOBUF, read_timeout_s=self._list_timeout_s)
        return read_page(self.read(request))

    def watch(self, resource: Resource, resource_version: str, timeout_s: float) -> "WatchStream":
        """Open a watch that the server ends after `timeout_s`; bookmarks included."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(timeout_s))),
        }
        # The server ends the watch; silence well beyond that means that the connection is dead.
        request = Request("GET", resource.path, query, WATCH, read_timeout_s=timeout_s + 15)
        return WatchStream(self._open(request))

    def may(self, resource: Resource, verb: str, namespace: str = "") -> bool:
        """Whether this user may do `verb` to a resource in a namespace, or in all for ""."""
        attributes = {"group": resource.group, "resource": resource.plural, "verb": verb, "namespace": namespace}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self.json("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        return bool(answer.get("status", {}).get("allowed"))

    def json(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Make a small call in JSON."""
        encoded = None if body is None else msgspec.json.encode(body)
        answer = self.read(Request(method, path, body=encoded, content_type=content_type, read_timeout_s=30))
        return dict(msgspec.json.decode(answer)) if answer else {}

    def read(self, request: Request) -> bytes:
        """Return the whole body of an answer."""
        response = self._open(request)
        try:
            return bytes(response.read())
        except HTTPError as error:
            raise UnreachableError(f"{request.method} {request.path}: the answer was cut off: {error}") from error
        finally:
            response.release_conn()

    def _open(self, request: Request) -> urllib3.BaseHTTPResponse:
        try:
            response = self.connection.send(request)
            if response.status < 400:
                return response
            with closing(response):
                body = response.read()
        except HTTPError as error:
            where = f"{request.method} {self.connection.server}{request.path}"
            raise UnreachableError(f"{where}: {error}") from error
        raise read_error(response.status, body, response.headers.get("Retry-After", ""))


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
