"""Single requests to an API server, as bytes or JSON, and the error of each answer.

Decides which answers are errors, and which errors may be transient. Repeats a request only in `read_with_retries`.
Units: seconds.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from trimtab.common.kubernetes.connection import ApiRequest, Connection
from trimtab.common.kubernetes.envelope import read_error
from trimtab.common.kubernetes.errors import ApiError, MalformedAnswerError, UnreachableError
from trimtab.common.kubernetes.json_envelope import ObjectList, decode
from trimtab.common.kubernetes.registry import Resource
from trimtab.common.rpc.retries import RetryPolicy, attempts, with_retries

Json = dict[str, Any]


class Page(Protocol):
    """A part of a list."""

    @property
    def next_page(self) -> str:
        """Return the token of the next page; "" = this is the last one."""


T = TypeVar("T")
P = TypeVar("P", bound=Page)

_OF_POOL: Final = re.compile(r"\w+\(host=[^)]*\): ")
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
JSON_TIMEOUT_S = 10.0
"""Longest silence of the server in a small request."""
READS: Final = attempts(4, 0.1, 1.0)
"""Attempts of a repeated request, and the pauses between them where the server gives no hint."""
LONGEST_HINT_S = 5.0
"""Longest pause that a server may ask for."""


class Api:
    """Requests to one API server. Thread-safe. Every method raises ApiError, UnreachableError.

    `guard` may be set: it is called before each request that changes something, and raises to forbid it.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.guard: Callable[[], None] = _allow

    def json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        timeout_s: float = JSON_TIMEOUT_S,
    ) -> Json:
        """Send a small request in JSON, once. Also raises MalformedAnswerError."""
        encoded = None if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, path, body=encoded, content_type=content_type, read_timeout_s=timeout_s)
        return json_object(request, self.read(request))

    def merge_or_create(self, resource: Resource, namespace: str, name: str, fields: Json) -> None:
        """Merge fields into an object, or create it with them if it does not exist. `fields` may have metadata."""
        body = resource.type_meta | fields | {"metadata": {**fields.get("metadata", {}), "name": name}}
        try:
            self.json("PATCH", resource.path_in(namespace, name), body, MERGE_PATCH)
        except ApiError as error:
            if error.status != 404:
                raise
            body["metadata"]["namespace"] = namespace
            self.json("POST", resource.path_in(namespace), body)

    def read(self, request: ApiRequest) -> bytes:
        """Send a request, once, and return the whole body of the answer."""
        if request.method != "GET":
            self.guard()
        response = self.open(request)
        try:
            return bytes(response.read())
        except (HTTPError, OSError) as error:
            raise UnreachableError(f"{request.method} {request.path}: the answer was cut off: {error}") from error
        finally:
            response.release_conn()

    def read_with_retries(self, request: ApiRequest) -> bytes:
        """Send an idempotent request, up to four times while errors may be transient."""
        return with_retries(lambda: self.read(request), read_policy)

    def objects(self, request: ApiRequest, kind: type[T], limit: int) -> Iterator[T]:
        """Yield the objects of a list, which are of that kind; each page of at most `limit` is read with retries. Also
        raises MalformedAnswerError.
        """
        list_kind = cast(Any, ObjectList)[kind]

        def read(token: str) -> ObjectList[T]:
            query = {**request.query, "limit": str(limit)} | ({"continue": token} if token else {})
            answer = self.read_with_retries(request._replace(query=query))
            page: ObjectList[T] = decode(list_kind, answer, f"{request.method} {request.path}")
            return page

        for page in pages(read, request.path):
            yield from page.items or ()

    def open(self, request: ApiRequest) -> urllib3.BaseHTTPResponse:
        """Send a request and return the answer with its body unread; the caller closes it."""
        try:
            response = self.connection.send(request)
            if response.status < 400:
                return response
            with closing(response):
                body = response.read()
        except (HTTPError, OSError) as error:
            # Without the pool's own name for the server.
            cause = _OF_POOL.sub("", str(error))
            server = self.connection.server
            raise UnreachableError(f"no answer of {server}: {cause} ({request.method} {request.path})") from error
        raise read_error(response.status, body, response.headers.get("Retry-After", ""))

    def close(self) -> None:
        """Close idle connections."""
        self.connection.close()


def pages(read: Callable[[str], P], path: str) -> Iterator[P]:
    """Yield the pages of a list. read : returns the page of a token, "" = the first; path : of the list, for the error.
    Raises MalformedAnswerError if a token comes again.
    """
    token = ""
    while True:
        page = read(token)
        yield page
        if not page.next_page:
            return
        if page.next_page == token:
            # A proxy that repeats an answer: the list would grow for ever.
            raise MalformedAnswerError(f"GET {path}: the list does not end: the same page came again")
        token = page.next_page


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, ApiError):
        return error.is_transient
    return isinstance(error, UnreachableError | MalformedAnswerError)


def json_object(request: ApiRequest, answer: bytes) -> Json:
    """Return the JSON object of an answer; {} for an empty answer. Raises MalformedAnswerError."""
    try:
        return dict(msgspec.json.decode(answer)) if answer else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise MalformedAnswerError(
            f"{request.method} {request.path}: the answer is not a JSON object: {error}"
        ) from error


def read_policy(error: BaseException) -> RetryPolicy | None:
    """Return how often an idempotent request is made; the server may ask for a pause, within a limit."""
    if not is_transient(error):
        return None
    hint_s = error.retry_after_s if isinstance(error, ApiError) else None
    return READS if hint_s is None else replace(READS, hint_s=min(hint_s, LONGEST_HINT_S))


def _allow() -> None:
    """Allow everything."""
