"""The Prometheus endpoint: metrics by HTTP or HTTPS.

Besides `/metrics` it has `/healthz` and `/readyz`, because the kubelet's gRPC probes do not support TLS. If callers
need certificates, they do for metrics but not for health, as the kubelet has none. Never decides which metrics exist.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from prometheus_client import make_wsgi_app

from trimtab.common.rpc.http_port import HttpAnswer, HttpRequest, Page, plain, serve_http
from trimtab.common.rpc.port_security import PortSecurity


def serve_metrics(
    host: str, port: int, security: PortSecurity | None = None, is_ready: Callable[[], bool] = bool
) -> tuple[int, Callable[[], None]]:
    """Serve the metrics of this process; return the port and a function that ends it. Raises OSError if the port is
    taken or a file cannot be read; ValueError if the files cannot be used. is_ready : returns at once.
    """
    security = security or PortSecurity()
    server = serve_http(host, port, security.http_context(), _pages(security.client_ca is not None, is_ready))
    return server.server_port, server.close


def _pages(for_known_callers: bool, is_ready: Callable[[], bool]) -> Page:
    metrics = make_wsgi_app()

    def page(request: HttpRequest) -> HttpAnswer | Callable[[], HttpAnswer]:
        if request.path in ("/healthz", "/readyz"):
            return plain("200 OK", "ok") if request.path == "/healthz" or is_ready() else _NOT_READY
        if for_known_callers and not request.showed_certificate:
            return plain("403 Forbidden", "metrics are for callers with a client certificate")
        return partial(_scrape, metrics, request)

    return page


def _scrape(metrics: Callable[..., Any], request: HttpRequest) -> HttpAnswer:
    """Return the metrics, in the form and compression that the caller accepts."""
    started: list[tuple[str, list[tuple[str, str]]]] = []
    environment = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "HTTP_ACCEPT": request.headers.get("accept", ""),
        "HTTP_ACCEPT_ENCODING": request.headers.get("accept-encoding", ""),
    }
    body = b"".join(metrics(environment, lambda status, headers: started.append((status, headers))))
    status, headers = started[0]
    return HttpAnswer(status, body, tuple(headers))


_NOT_READY: Final = plain("503 Service Unavailable", "the service is starting or stopping")
