"""The connection to an API server: address, TLS and authentication from a kubeconfig or a pod's service account.

Decides headers and timeouts of a single HTTP request. Never repeats a request and never reads an object. The
`kubernetes` package reads the configuration, runs exec plugins and renews tokens. Units: seconds.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPConnection

from trimtab.common.kubernetes.errors import ConfigurationError, UnreachableError

POOL_SIZE = 64
"""Connections kept open: one for each watch, and some for calls at the same time."""

_PROBES = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _PROBES.items() if hasattr(socket, name)),
]
"""TCP keepalive: a lost peer is noticed within a minute, even on a silent watch."""


@dataclass(frozen=True)
class ConnectionSettings:
    """Which cluster, and with which credentials."""

    # A kubeconfig file. None = $KUBECONFIG or ~/.kube/config, and the service account inside a pod.
    kubeconfig: Path | None = None
    # A context of the kubeconfig. "" = its current one.
    context: str = ""
    # Longest time to open a connection, seconds.
    connect_timeout_s: float = 10.0
    # The User-Agent header.
    user_agent: str = "trimtab"


class ApiRequest(NamedTuple):
    """One HTTP request. path : begins with "/"; accept : media type of the answer; content_type : of the body, None =
    no body; read_timeout_s : longest silence, seconds. method : of HTTP; query : parameters by name, not encoded.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    accept: str = "application/json"
    body: bytes | None = None
    content_type: str = "application/json"
    read_timeout_s: float = 60.0


class Connection:
    """An API server, and how to send requests to it. Thread-safe."""

    def __init__(
        self,
        server: str,
        pool: urllib3.PoolManager,
        authorization: Callable[[], str],
        settings: ConnectionSettings | None = None,
    ) -> None:
        """`authorization` returns the header's value, "" for none; it is called for each request, one at a time."""
        self.server = server.rstrip("/")
        self._pool = pool
        self._authorization = authorization
        self._settings = settings or ConnectionSettings()
        self._lock = threading.Lock()

    def send(self, request: ApiRequest) -> urllib3.BaseHTTPResponse:
        """Send a request and return the answer with its body unread.

        Raises urllib3.exceptions.HTTPError; UnreachableError when there are no credentials just now.
        """
        headers = {"Accept": request.accept, "User-Agent": self._settings.user_agent}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        with self._lock:
            authorization = self._authorization()
        if authorization:
            headers["Authorization"] = authorization
        query = "?" + urlencode(request.query) if request.query else ""
        return self._pool.request(
            request.method,
            self.server + request.path + query,
            headers=headers,
            body=request.body,
            retries=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=self._settings.connect_timeout_s, read=request.read_timeout_s),
        )

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()


def connect_cluster(settings: ConnectionSettings | None = None) -> Connection:
    """Return a connection as configured; no request is made, but an exec plugin may be run.

    Raises ConfigurationError when there is no usable configuration.
    """
    settings = settings or ConnectionSettings()
    from kubernetes.client import Configuration
    from kubernetes.client.rest import RESTClientObject

    configuration = Configuration()
    try:
        with _collected_errors() as complaints:
            _load(settings, configuration)
        if complaints and not _has_credentials(configuration):
            raise ValueError(f"the credentials cannot be obtained: {complaints[0]}")
        configuration.keep_alive = True
        configuration.connection_pool_maxsize = POOL_SIZE
        pool = RESTClientObject(configuration).pool_manager
        pool.connection_pool_kw["socket_options"] = [*HTTPConnection.default_socket_options, *_KEEP_ALIVE]
        server = _server(configuration.host)
    except Exception as error:  # any error of the loader means that the configuration is wrong
        where = str(settings.kubeconfig or "the usual places ($KUBECONFIG, ~/.kube/config, a service account)")
        _check_context(settings)
        what = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        if isinstance(error, AttributeError | LookupError | TypeError):
            what = f"it does not have the structure of a kubeconfig ({what})"
        raise ConfigurationError(f"no usable cluster configuration in {where}: {what}; name a kubeconfig") from error
    return Connection(server, pool, lambda: _authorization(configuration), settings)


def _check_context(settings: ConnectionSettings) -> None:
    """Raise ConfigurationError if the kubeconfig, or the context in it, is what is missing."""
    path = settings.kubeconfig
    if path is not None and not path.exists():
        raise ConfigurationError(f"kubeconfig {path}: there is no such file")
    if not settings.context:
        return
    config: Any = import_module("kubernetes.config")
    try:
        contexts, _ = config.list_kube_config_contexts(None if path is None else str(path))
        names = sorted(str(context["name"]) for context in contexts)
    except Exception:  # the file cannot be read, which the caller says
        return
    if settings.context not in names:
        where = "the kubeconfig" if path is None else str(path)
        known = ", ".join(names) or "none"
        raise ConfigurationError(f"there is no context {settings.context} in {where}; there are: {known}")


def _load(settings: ConnectionSettings, configuration: Any) -> None:
    """Fill in a configuration: the file named, else inside a pod its service account, else the usual kubeconfig."""
    config: Any = import_module("kubernetes.config")
    if settings.kubeconfig is None and not settings.context:
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException:
            config.load_kube_config(client_configuration=configuration)
        return
    config.load_kube_config(
        config_file=str(settings.kubeconfig) if settings.kubeconfig else None,
        context=settings.context or None,
        client_configuration=configuration,
    )


@contextmanager
def _collected_errors() -> Iterator[list[str]]:
    """Collect error logs: when an exec plugin fails, the `kubernetes` package only logs it and continues."""
    complaints: list[str] = []

    class ErrorCollector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complaints.append(record.getMessage())

    collector, root = ErrorCollector(logging.ERROR), logging.getLogger()
    root.addHandler(collector)
    try:
        yield complaints
    finally:
        root.removeHandler(collector)


def _has_credentials(configuration: Any) -> bool:
    return bool(configuration.api_key or configuration.cert_file or configuration.username)


def _server(host: str) -> str:
    """Return the server's address. Raises ValueError when it is not a URL."""
    parts = urlsplit(host)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the server {host!r} is not an http(s) URL")
    return host


def _authorization(configuration: Any) -> str:
    """Return the header's value; tokens are renewed here by the configuration's own hook."""
    try:
        token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    except Exception as error:  # of a plugin or an identity provider; it may be transient
        raise UnreachableError(f"the credentials could not be renewed: {error}") from error
    if token:
        return str(token)
    if configuration.username or configuration.password:
        return str(configuration.get_basic_auth_token())
    return ""
