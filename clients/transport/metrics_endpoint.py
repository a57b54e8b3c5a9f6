"""The Prometheus endpoint: metrics by HTTP or HTTPS.

Besides `/metrics` it has `/healthz` and `/readyz`, because the kubelet's gRPC probes do not support TLS. If callers
need certificates, they do for metrics but not for health, as the kubelet has none. Never decides which metrics exist.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from prometheus_client import make_wsgi_app

from clients.transport.http_port import SHOWED_CERTIFICATE, Page, plain, serve_http
from clients.transport.port_security import PortSecurity


def serve_metrics(
    host: str, port: int, security: PortSecurity | None = None, is_ready: Callable[[], bool] = bool
) -> tuple[int, Callable[[], None]]:
    """Serve the metrics of this process; return the port and a function that ends it. Errors: OSError if the port is
    taken or a file cannot be read; ValueError if the files cannot be used.
    """
    security = security or PortSecurity()
    server = serve_http(host, port, security.http_context(), _pages(security.client_ca is not None, is_ready))
    return server.server_port, server.close


def _pages(for_known_callers: bool, is_ready: Callable[[], bool]) -> Page:
    """Return the WSGI application."""
    metrics: Any = make_wsgi_app()

    def page(environment: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environment.get("PATH_INFO", "")
        if path in ("/healthz", "/readyz"):
            return plain(start_response, *(("200 OK", "ok") if path == "/healthz" or is_ready() else _NOT_READY))
        if for_known_callers and not environment[SHOWED_CERTIFICATE]:
            return plain(start_response, "403 Forbidden", "metrics are for callers with a client certificate")
        return metrics(environment, start_response)  # type: ignore[no-any-return]

    return page


_NOT_READY: Final = ("503 Service Unavailable", "the service is starting or stopping")
