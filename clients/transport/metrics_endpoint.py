"""The Prometheus endpoint: metrics by HTTP, with a fixed number of threads whatever the callers do.

Decides how long a connection may take and how many there may be; never which metrics there are. Times in seconds.
"""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

_THREADS: Final = 8
_MOST_CONNECTIONS: Final = 64
_LONGEST_S: Final = 5.0
"""Longest time for one connection. A scrape takes milliseconds."""


class _Handler(WSGIRequestHandler):
    """Answers one request; leaves no line in the log."""

    def handle(self) -> None:
        """Answer, or leave it where the caller is gone."""
        with suppress(OSError):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


class _Server(WSGIServer):
    """Serves connections with few threads, and closes those that take too long or are too many."""

    request_queue_size = 128

    def __init__(self, address: tuple[str, int]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = threading.Lock()
        self._since_s: dict[Any, float] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="metrics")
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection to the next free thread."""
        with self._lock:
            is_one_too_many = len(self._since_s) >= _MOST_CONNECTIONS
            if not is_one_too_many:
                self._since_s[request] = time.monotonic()
        if is_one_too_many:
            self.shutdown_request(request)
        else:
            self._threads.submit(self._serve, request, client_address)

    def service_actions(self) -> None:
        """End connections that take too long. Called between two connections, and twice a second."""
        before_s = time.monotonic() - _LONGEST_S
        with self._lock:
            late = [request for request, since_s in self._since_s.items() if since_s < before_s]
        for request in late:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            with suppress(OSError):
                self.finish_request(request, client_address)
        finally:
            with self._lock:
                self._since_s.pop(request, None)
            self.shutdown_request(request)

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        with self._lock:
            for request in self._since_s:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
        self._threads.shutdown(cancel_futures=True)
        self.server_close()


def serve_metrics(host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Serve the metrics of this process; return the port and what ends it. Raises OSError where it is taken."""
    server = _Server((host, port))
    server.set_app(make_wsgi_app())
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server.server_port, server.close
