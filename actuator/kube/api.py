"""One way to an API server: JSON calls with a time limit, repeated where that is safe, errors as `Cluster` knows them.

Decides how a call looks, which error an answer is, and what is repeated. Never decides what is called. Configuration,
exec plugins and the renewal of tokens are the `kubernetes` package's. Durations in seconds.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import urllib3
import yaml
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from actuator.kube.cluster import ClusterError, ForbiddenError, NotFoundError, RefusedError, TooManyRequestsError

Json = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
USER_AGENT = "trimtab-actuator"
POOL_SIZE = 64
ATTEMPTS = 4
# A pause that a server asks for is kept up to this.
LONGEST_PAUSE_S = 5.0


class ConflictError(ClusterError):
    """The object is not (or no longer) what the call assumed; look again."""


class Call(NamedTuple):
    """One call. `path` begins with "/"; `repeat` = may be sent again when it may not have worked."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None
    content_type: str = "application/json"
    repeat: bool = True
    timeout_s: float = 0.0


class ConfigurationError(ValueError):
    """There is no usable configuration of a cluster; the text says where it was looked for."""


class Api:
    """Calls to one API server. Safe to use from several threads."""

    def __init__(
        self, server: str, pool: urllib3.PoolManager, authorization: Callable[[], str], timeout_s: float = 10.0
    ) -> None:
        """`authorization` returns the header's value, "" for none. `timeout_s` bounds connecting, and each silence.

        `guard` may be set: it is called before each call that changes something, and forbids it by raising.
        """
        self.guard: Callable[[], None] = _allow
        self.server = server.rstrip("/")
        self._pool = pool
        self._authorization = authorization
        self._timeout_s = timeout_s
        self._lock = threading.Lock()

    def call(self, call: Call) -> bytes:
        """Make a call; returns the body of the answer.

        Raises `NotFoundError`, `ConflictError`, `TooManyRequestsError`, `RefusedError`, and `ClusterError` when asking
        again may help.
        """
        if not call.repeat:
            return self._send(call)
        retrying = Retrying(
            retry=retry_if_exception(_may_pass), stop=stop_after_attempt(ATTEMPTS), wait=_pause_s, reraise=True
        )
        return retrying(self._send, call)

    def json(self, call: Call) -> Json:
        """Make a call whose answer is an object."""
        answer = self.call(call)
        try:
            return dict(msgspec.json.decode(answer)) if answer else {}
        except (msgspec.DecodeError, TypeError, ValueError) as error:
            raise ClusterError(f"{call.method} {call.path}: the answer is no JSON object: {error}") from error

    def stream(self, call: Call) -> urllib3.BaseHTTPResponse:
        """Open a watch; the caller reads and closes it. Raises as `call`."""
        return self._open(call)

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()

    def _send(self, call: Call) -> bytes:
        if call.method != "GET":
            self.guard()
        response = self._open(call)
        try:
            return bytes(response.read())
        except urllib3.exceptions.HTTPError as error:
            raise ClusterError(f"{call.method} {call.path}: the answer was cut off: {error}") from error
        finally:
            response.release_conn()

    def _open(self, call: Call) -> urllib3.BaseHTTPResponse:
        try:
            response = self._request(call)
            if response.status < 400:
                return response
            with contextlib.closing(response):
                body = response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(f"{call.method} {self.server}{call.path}: {error}") from error
        raise _error(call, response.status, body, response.headers.get("Retry-After", ""))

    def _request(self, call: Call) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        body = None if call.body is None else msgspec.json.encode(call.body)
        if body is not None:
            headers["Content-Type"] = call.content_type
        with self._lock:
            authorization = self._authorization()
        if authorization:
            headers["Authorization"] = authorization
        query = "?" + urlencode(call.query) if call.query else ""
        return self._pool.request(
            call.method,
            self.server + call.path + query,
            headers=headers,
            body=body,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=self._timeout_s, read=call.timeout_s or self._timeout_s),
        )


def _allow() -> None:
    pass


def connect(kubeconfig: Path | None = None, context: str = "", timeout_s: float = 10.0) -> Api:
    """A connection as the kubeconfig, or inside a pod the service account, says; no call is made.

    Raises `ConfigurationError` when there is no usable configuration, or the extra is not installed.
    """
    try:
        from kubernetes.client import Configuration
        from kubernetes.client.rest import RESTClientObject
    except ImportError as error:
        raise ConfigurationError("a real cluster needs the extra: pip install 'trimtab[kubernetes]'") from error
    configuration = Configuration()
    _load(kubeconfig, context, configuration)
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = POOL_SIZE
    pool = RESTClientObject(configuration).pool_manager
    return Api(configuration.host, pool, lambda: _authorization(configuration), timeout_s)


def _load(kubeconfig: Path | None, context: str, configuration: Any) -> None:
    config: Any = import_module("kubernetes.config")
    try:
        if kubeconfig is None and not context:
            try:
                config.load_incluster_config(client_configuration=configuration)
            except config.ConfigException:
                config.load_kube_config(client_configuration=configuration)
            return
        config.load_kube_config(
            config_file=str(kubeconfig) if kubeconfig else None,
            context=context or None,
            client_configuration=configuration,
        )
    except (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, KeyError) as error:
        where = str(kubeconfig or "the usual places ($KUBECONFIG, ~/.kube/config, a service account)")
        raise ConfigurationError(f"no usable cluster configuration in {where}: {error}; give --kubeconfig") from error


def _authorization(configuration: Any) -> str:
    """The header's value; tokens are renewed here by the configuration's own hook."""
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    if token:
        return str(token)
    if configuration.username or configuration.password:
        return str(configuration.get_basic_auth_token())
    return ""


def _may_pass(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, TooManyRequestsError):
        return True
    return isinstance(error, ClusterError) and not isinstance(error, NotFoundError | RefusedError | ConflictError)


def _pause_s(state: RetryCallState) -> float:
    """As long as the server asks for, else growing with each attempt."""
    error = state.outcome.exception() if state.outcome else None
    hint_s = error.retry_after_s if isinstance(error, TooManyRequestsError) else None
    return min(hint_s, LONGEST_PAUSE_S) if hint_s is not None else wait_random_exponential(0.1, 1.0)(state)


def _error(call: Call, status: int, body: bytes, retry_after: str) -> ClusterError:
    """The error that an answer is. Source: the Kubernetes API conventions, "HTTP status codes"."""
    message = _message(body)
    text = f"{call.method} {call.path}: the API server answered {status}: {message}"
    match status:
        case 404 | 410:
            return NotFoundError(text)
        case 409:
            return ConflictError(text)
        case 429:
            return TooManyRequestsError(text, float(retry_after) if retry_after.isdigit() else None)
        case 403:
            return ForbiddenError(text)
        case 400 | 405 | 406 | 413 | 415 | 422:
            return RefusedError(text)
        case _:
            return ClusterError(text)


def _message(body: bytes) -> str:
    """The message of a `Status`, or the beginning of whatever came."""
    try:
        return str(msgspec.json.decode(body)["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return body[:200].decode(errors="replace")
