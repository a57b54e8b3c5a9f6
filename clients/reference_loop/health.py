"""Health over HTTP: `/healthz` is 200 while the loop is active, `/readyz` while rounds succeed or another loop leads.

Otherwise each is 503 with the reason. A loop that has not finished a round for `max_inactivity_s` is stuck.
"""

import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from clients.transport.port_security import PortSecurity
from clients.transport.telemetry import split_address

CONNECTION_TIMEOUT_S = 5.0
"""Longest silence of a caller."""


class Health:
    """The content of the endpoints. `clock` is monotonic, in seconds."""

    def __init__(self, max_inactivity_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s, self._clock = max_inactivity_s, clock
        self._active_s = clock()
        self.not_ready = "the cluster has not been listed yet"

    def active(self) -> None:
        """Note that a round of the loop has ended, successfully or not."""
        self._active_s = self._clock()

    @property
    def stuck(self) -> str:
        """Return why the loop counts as stuck; "" = it does not."""
        idle_s = self._clock() - self._active_s
        return f"no round has ended for {idle_s:.0f} s" if idle_s > self._limit_s else ""


class _Server(ThreadingHTTPServer):
    """A thread for each connection, which begins with a TLS handshake where there is a certificate."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: Any, tls: Callable[[], ssl.SSLContext] | None) -> None:
        self._tls = tls
        super().__init__(address, handler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer one connection."""
        request.settimeout(CONNECTION_TIMEOUT_S)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        with self._tls().wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave a connection that fails: callers come and go."""


class HealthServer:
    """The endpoints. Use as a context manager."""

    def __init__(self, address: str, health: Health, security: PortSecurity | None = None) -> None:
        """Listen on "host:port", port 0 = any. Errors: OSError, ValueError as of `PortSecurity`."""
        security = security or PortSecurity()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                checks = {"/healthz": health.stuck, "/livez": health.stuck, "/readyz": health.not_ready}
                trouble = checks.get(self.path.partition("?")[0])
                code = 404 if trouble is None else 503 if trouble else 200
                body = (trouble or ("ok" if code == 200 else "not found")).encode() + b"\n"
                self.send_response(code)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: probes come every few seconds."""

        host, _ = split_address(address)
        security.check_exposure("--health-address", host)
        self._http = _Server(split_address(address), Handler, security.http_context())
        self._thread = threading.Thread(target=self._http.serve_forever, name="health", daemon=True)
        bound, port = self._http.server_address[:2]
        self.address = f"{bound!s}:{port}"

    def __enter__(self) -> "HealthServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
