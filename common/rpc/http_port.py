"""An HTTP or HTTPS port for short answers, served whatever its other callers do.

Decides how long a connection may take, how many may be open, and which one is ended to make room; never the answers.
One thread serves all connections: handshakes, requests that have not arrived and answers that are not read take no
thread, so silent callers keep nobody out. What takes long to compute has threads of its own. Every connection is for
one request. Times in seconds.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import structlog

from trimtab.common.documents.output import visible
from trimtab.common.rpc.callers import peer_identities

_REQUEST_S: Final = 2.0
"""Longest time until the handshake is done and the request has arrived. Both take milliseconds."""
_LONGEST_S: Final = 5.0
"""Longest time for one connection. A scrape takes milliseconds."""
_MOST_CONNECTIONS: Final = 256
_MAX_HEAD_BYTES: Final = 16 << 10
_THREADS: Final = 2
_BACKLOG: Final = 1024
_PAUSE_S: Final = 0.1
"""After a connection could not be accepted, for want of file descriptors."""
_ENDED_BY_CALLER: Final = (OSError, TimeoutError, EOFError)
log = structlog.get_logger("http")


class HttpRequest(NamedTuple):
    """A request. headers : by name in lower case; showed_certificate : whether its caller has presented a valid one.
    path : decoded, without the query; query : as sent; identities : of that certificate.
    """

    path: str
    query: str = ""
    headers: Mapping[str, str] = MappingProxyType({})
    showed_certificate: bool = False
    identities: tuple[str, ...] = ()


class HttpAnswer(NamedTuple):
    """An answer. status : code and phrase. body : bytes as sent; headers : (name, value)."""

    status: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/plain; charset=utf-8"),)


Page = Callable[[HttpRequest], HttpAnswer | Callable[[], HttpAnswer]]
"""Answers a request at once, or returns a function that takes longer to do so, for a separate thread."""


class HttpPort:
    """A port that is being served. Safe between threads."""

    def __init__(self, address: tuple[str, int], tls: Callable[[], ssl.SSLContext] | None, page: Page) -> None:
        """Bind and serve. Raises OSError if the port is taken."""
        self._tls, self._page = tls, page
        self._listener = _listen(address)
        self.server_port: int = self._listener.getsockname()[1]
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="http-page")
        # In the order in which they came: connections whose requests have not arrived, and those being answered.
        self._receiving: dict[asyncio.Task[None], None] = {}
        self._answering: dict[asyncio.Task[None], None] = {}
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_log_at_level_debug)
        self._accepting = self._loop.create_task(self._accept())
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and end all connections."""
        with suppress(RuntimeError):  # The loop is closed already.
            self._loop.call_soon_threadsafe(self._accepting.cancel)
        self._thread.join()
        self._threads.shutdown(cancel_futures=True)

    def _run(self) -> None:
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._accepting)
        self._listener.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True) if left else asyncio.sleep(0))
        # Once more: what was ended has to close its socket.
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _accept(self) -> None:
        """Accept connections until cancelled."""
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError as error:
                log.warning("a connection could not be accepted", detail=str(error))
                await asyncio.sleep(_PAUSE_S)
                continue
            self._make_room()
            task = self._loop.create_task(self._serve(connection))
            self._receiving[task] = None
            task.add_done_callback(self._forget)
            # Accepting does not wait while connections are queued: let the others continue.
            await asyncio.sleep(0)

    def _make_room(self) -> None:
        """End the oldest connection if there are too many, first of those whose requests have not arrived."""
        if len(self._receiving) + len(self._answering) >= _MOST_CONNECTIONS:
            oldest = next(iter(self._receiving or self._answering))
            self._forget(oldest)
            oldest.cancel()

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._receiving.pop(task, None)
        self._answering.pop(task, None)

    async def _serve(self, connection: socket.socket) -> None:
        """Answer the request of a connection, unless its caller is too slow or disconnects."""
        request_until_s = self._loop.time() + _REQUEST_S
        with suppress(*_ENDED_BY_CALLER):
            async with asyncio.timeout(_LONGEST_S), self._streams(connection, request_until_s) as (reader, writer):
                async with asyncio.timeout_at(request_until_s):
                    head = await _read_head(reader)
                task = asyncio.current_task()
                if task in self._receiving:
                    self._answering[task] = self._receiving.pop(task)
                writer.write(await self._answer(head, writer.get_extra_info("peercert") or {}))
                await writer.drain()
                writer.close()
                await writer.wait_closed()

    @asynccontextmanager
    async def _streams(
        self, connection: socket.socket, until_s: float
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Give a connection's streams after the handshake, which ends at `until_s`; end the connection in any case."""
        reader = asyncio.StreamReader(limit=_MAX_HEAD_BYTES, loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        async with asyncio.timeout_at(until_s):
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self._tls() if self._tls else None
            )
        # An answer counts as read once all of it has been given to the operating system.
        transport.set_write_buffer_limits(high=0)
        try:
            yield reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)
        finally:
            transport.abort()

    async def _answer(self, head: bytes, certificate: Mapping[str, Any]) -> bytes:
        """Return the bytes of the answer to a request."""
        request = _parse(head, certificate)
        if isinstance(request, HttpAnswer):
            return _encode(request)
        try:
            answer = self._page(request)
            if not isinstance(answer, HttpAnswer):
                answer = await self._loop.run_in_executor(self._threads, answer)
        except Exception as error:
            log.error("a page failed", path=request.path, exc_info=error)
            answer = plain("500 Internal Server Error", "the service's log has the error")
        return _encode(answer, has_body=not head.startswith(b"HEAD "))


def serve_http(host: str, port: int, tls: Callable[[], ssl.SSLContext] | None, page: Page) -> HttpPort:
    """Serve a page in separate threads, port 0 = any; `server_port` has the port, `close` ends it.

    tls : gives the TLS context of the next connection, None = plain text. Raises OSError if the port is taken.
    """
    return HttpPort((host, port), tls, page)


def plain(status: str, text: str) -> HttpAnswer:
    """Return an answer with a line of text, which may repeat what the caller sent."""
    return HttpAnswer(status, visible(text).encode() + b"\n")


def _listen(address: tuple[str, int]) -> socket.socket:
    """Return a bound socket."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Return the request line and the headers; as much as has arrived if they are too long."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return b""


def _parse(head: bytes, certificate: Mapping[str, Any]) -> HttpRequest | HttpAnswer:
    """Return the request, or the answer to one that cannot be served."""
    if not head:
        return plain("431 Request Header Fields Too Large", f"a request has at most {_MAX_HEAD_BYTES} bytes")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.partition(" ")
    if not version.startswith("HTTP/1."):
        return plain("400 Bad Request", "this port speaks HTTP/1.1")
    if method not in ("GET", "HEAD"):
        return plain("405 Method Not Allowed", "this port answers GET and HEAD")
    path, _, query = target.partition("?")
    fields = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    return HttpRequest(unquote(path), query, headers, bool(certificate), peer_identities(certificate))


def _encode(answer: HttpAnswer, has_body: bool = True) -> bytes:
    """Return the bytes of an answer."""
    fixed = (("Content-Length", str(len(answer.body))), ("Connection", "close"))
    lines = (f"HTTP/1.1 {answer.status}", *(f"{name}: {value}" for name, value in (*answer.headers, *fixed)), "", "")
    return "\r\n".join(lines).encode("latin-1") + (answer.body if has_body else b"")


def _log_at_level_debug(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what asyncio could not: handshakes that fail, connections that break. Any caller can cause these."""
    log.debug("a connection failed", detail=str(context.get("exception") or context.get("message")))
