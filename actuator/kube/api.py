"""Calls of the actuator to an API server, with the errors of `Cluster`.

Decides which error of `trimtab.actuator.kube.cluster` an answer becomes, and which calls are safe to retry. Never
decides what is called; connections, bytes, pages and retries are in `trimtab.common.kubernetes`. Durations in seconds.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from trimtab.actuator.kube.cluster import (
    ClusterError,
    ConflictError,
    FieldConflictError,
    ForbiddenError,
    InvalidError,
    NoAnswerError,
    NotFoundError,
    NotServedError,
    RefusedError,
    TooManyRequestsError,
)
from trimtab.common.kubernetes import errors
from trimtab.common.kubernetes.api import Api, Json, json_object
from trimtab.common.kubernetes.connection import ApiRequest, ConnectionSettings, connect_cluster
from trimtab.common.kubernetes.json_envelope import decode

# Asks for the objects' metadata only.
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Cause of a conflict. Source: apimachinery, meta/v1, `CauseTypeFieldManagerConflict`.
FIELD_CONFLICT: Final = "FieldManagerConflict"

# Objects of a list that are asked for at a time.
PAGE: Final = 500


T = TypeVar("T")


class Call(NamedTuple):
    """One call, of which an `ApiRequest` is made: its body is not encoded yet, and its caller says whether it may be
    repeated.

    `method` : of HTTP; `path` : begins with "/"; `query` : parameters by name, not encoded; `body` : any value of JSON,
    None = none; `content_type` : of the body; `accept` : media type of the answer; `repeat` : may be sent again if it
    may have failed; `timeout_s` : longest silence, 0 = that of the connection.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = "application/json"
    repeat: bool = True
    timeout_s: float = 0.0
    accept: str = "application/json"


class KubeApi:
    """Calls to one API server. Safe to use from several threads."""

    def __init__(self, http: Api, timeout_s: float = 10.0) -> None:
        """Set up; `http` may have a `guard` that forbids writes; `timeout_s` bounds each silence."""
        self.http = http
        self._timeout_s = timeout_s

    def call(self, call: Call) -> bytes:
        """Make a call; returns the body of the answer.

        Raises `NotFoundError`, `NotServedError`, `ConflictError`, `TooManyRequestsError`, `RefusedError`, and
        `NoAnswerError`, and `ClusterError` when a retry may help.
        """
        with _as_cluster_errors(call):
            return self._send(call)

    def json(self, call: Call) -> Json:
        """Make a call whose answer is an object."""
        with _as_cluster_errors(call):
            return json_object(self._request(call), self._send(call))

    def read(self, call: Call, kind: type[T]) -> T:
        """Make a call whose answer is an object of that kind. Raises as `call`, and `ClusterError`."""
        with _as_cluster_errors(call):
            return decode(kind, self._send(call), f"{call.method} {call.path}")

    def objects(self, call: Call, kind: type[T]) -> Iterator[T]:
        """Yield the objects of a list, which are of that kind, page by page."""
        with _as_cluster_errors(call):
            yield from self.http.objects(self._request(call), kind, PAGE)

    def close(self) -> None:
        """Close idle connections."""
        self.http.close()

    def _send(self, call: Call) -> bytes:
        send = self.http.read_with_retries if call.repeat else self.http.read
        return send(self._request(call))

    def _request(self, call: Call) -> ApiRequest:
        body = None if call.body is None else msgspec.json.encode(call.body)
        timeout_s = call.timeout_s or self._timeout_s
        return ApiRequest(call.method, call.path, call.query, call.accept, body, call.content_type, timeout_s)


def connect(kubeconfig: Path | None = None, context: str = "", timeout_s: float = 10.0) -> KubeApi:
    """Create a connection from the kubeconfig, or inside a pod from the service account; no call is made.

    Raises `trimtab.common.kubernetes.errors.ConfigurationError`.
    """
    settings = ConnectionSettings(kubeconfig, context, connect_timeout_s=timeout_s, user_agent="trimtab-actuator")
    return KubeApi(Api(connect_cluster(settings)), timeout_s)


@contextmanager
def _as_cluster_errors(call: Call) -> Iterator[None]:
    """Turn errors of a call into those of `Cluster`."""
    try:
        yield
    except errors.ApiError as error:
        raise _error(call, error) from error
    except errors.MalformedAnswerError as error:
        raise ClusterError(str(error)) from error
    except errors.KubernetesError as error:
        raise NoAnswerError(str(error)) from error


def _error(call: Call, error: errors.ApiError) -> ClusterError:
    """Return the error for an answer. Source: the Kubernetes API conventions, "HTTP status codes"."""
    text = f"{call.method} {call.path}: {error}"
    match error.status:
        case 404:  # 410 is not about the object: a version or a page of a list has expired
            return _absence(call, error)(text)
        case 409:
            return (FieldConflictError if FIELD_CONFLICT in error.causes else ConflictError)(text)
        case 429:
            return TooManyRequestsError(text, error.retry_after_s)
        case 403:
            return ForbiddenError(text)
        case 422:
            return InvalidError(text)
        case 400 | 405 | 406 | 413 | 415:
            return RefusedError(text)
        case _:
            return ClusterError(text)


def _absence(call: Call, error: errors.ApiError) -> type[ClusterError]:
    """Return the error for a 404."""
    if not any(error.about):
        return NotServedError
    return NotFoundError if error.proves_absence(call.path) else ClusterError
