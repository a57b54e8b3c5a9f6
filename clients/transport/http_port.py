"""An HTTP or HTTPS port for short answers, with a fixed number of threads, whatever the callers do.

Decides how long a connection may take and how many may be open; never the answers. Times in seconds.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

_THREADS: Final = 8
_MOST_CONNECTIONS: Final = 64
_LONGEST_S: Final = 5.0
"""Longest time for one connection. A scrape takes milliseconds."""
SHOWED_CERTIFICATE: Final = "trimtab.showed_certificate"
"""Key of a request's WSGI environment: whether its caller has presented a valid certificate."""

Page = Callable[[dict[str, Any], Any], Iterable[bytes]]
"""A WSGI application."""


class _Handler(WSGIRequestHandler):
    """Answers one request; leaves no line in the log."""

    def handle(self) -> None:
        """Answer, unless the caller is gone."""
        with suppress(OSError):
            super().handle()

    def get_environ(self) -> dict[str, Any]:
        """Return the request, and whether the caller is known."""
        known = isinstance(self.connection, ssl.SSLSocket) and bool(self.connection.getpeercert())
        return {**super().get_environ(), SHOWED_CERTIFICATE: known}

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


class _Server(WSGIServer):
    """Serves connections with few threads, and closes those that take too long or are too many."""

    request_queue_size = 128

    def __init__(self, address: tuple[str, int], tls: Callable[[], ssl.SSLContext] | None) -> None:
        self._tls = tls
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._lock = threading.Lock()
        self._since_s: dict[Any, float] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="http")
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
                if self._tls is not None:
                    request = self._secured(request, self._tls())
                    request.do_handshake()
                self.finish_request(request, client_address)
        finally:
            with self._lock:
                self._since_s.pop(request, None)
            self.shutdown_request(request)

    def _secured(self, request: Any, context: ssl.SSLContext) -> ssl.SSLSocket:
        """Return a TLS connection with the same time limit; nothing is sent yet."""
        with self._lock:
            secured = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            self._since_s[secured] = self._since_s.pop(request)
            return secured

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        with self._lock:
            for request in self._since_s:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
        self._threads.shutdown(cancel_futures=True)
        self.server_close()


def serve_http(host: str, port: int, tls: Callable[[], ssl.SSLContext] | None, page: Page) -> _Server:
    """Serve a page in separate threads, port 0 = any; `server_port` has the port, `close` ends it.

    tls : gives the TLS context of the next connection, None = plain text. Raises OSError if the port is taken.
    """
    server = _Server((host, port), tls)
    server.set_app(page)
    threading.Thread(target=server.serve_forever, name="http", daemon=True).start()
    return server


def plain(start_response: Any, status: str, text: str) -> Iterable[bytes]:
    """Answer with a line of text."""
    start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode() + b"\n"]
