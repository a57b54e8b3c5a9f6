"""The metrics endpoint answers whatever other connections it has, and keeps none for long."""

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from tests.builders.waiting import LIMIT_S
from trimtab.common.rpc import http_port
from trimtab.common.rpc.http_port import HttpAnswer, HttpPort, plain, serve_http
from trimtab.common.rpc.metrics_endpoint import serve_metrics

MANY = 300
"""More connections than the port keeps."""


@pytest.fixture
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no connection ended for its silence."""
    for name in ("_REQUEST_S", "_LONGEST_S"):
        monkeypatch.setattr(http_port, name, 3 * LIMIT_S)


@contextmanager
def metrics_port() -> Iterator[int]:
    port, close = serve_metrics("127.0.0.1", 0, is_ready=lambda: True)
    try:
        yield port
    finally:
        close()


@contextmanager
def connections(port: int, count: int, begun: bytes = b"") -> Iterator[list[socket.socket]]:
    """Open connections that send `begun` and read nothing."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)))
            opened[-1].sendall(begun)
        yield opened


def page_of(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LIMIT_S) as page:
        return page.read()


def threads() -> int:
    """Return the number of HTTP ports' threads; those of other tests come and go."""
    return sum(one.name.startswith("http") for one in threading.enumerate())


@pytest.mark.parametrize("begun", [b"", b"GET /readyz HT", b"GET /metrics HTTP/1.1\r\n\r\n"])
@pytest.mark.parametrize("count", [70, MANY])
def test_every_probe_and_scrape_is_answered_beside_connections_that_send_or_read_nothing(
    no_limit: None, begun: bytes, count: int
) -> None:
    before = threads()
    with metrics_port() as port, connections(port, count, begun):
        assert [page_of(port, "/readyz") for _ in range(20)] == [b"ok\n"] * 20
        assert b"python_info" in page_of(port, "/metrics")
        assert threads() <= before + 3


def test_the_oldest_connection_makes_room_and_younger_ones_stay(no_limit: None) -> None:
    with metrics_port() as port, connections(port, MANY) as silent:
        assert page_of(port, "/readyz") == b"ok\n"
        assert silent[0].recv(1) == b""
        silent[-1].sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        assert silent[-1].recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("begun", [b"", b"GET /readyz HTTP/1.1\r\nX: "], ids=["silence", "half a request"])
def test_a_request_that_does_not_arrive_is_not_awaited_for_long(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "_REQUEST_S", 0.2)
    monkeypatch.setattr(http_port, "_LONGEST_S", 3 * LIMIT_S)
    with metrics_port() as port, connections(port, 3, begun) as silent:
        assert [one.recv(1) for one in silent] == [b""] * 3


def test_an_answer_that_is_not_read_is_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "_LONGEST_S", 0.2)
    size = 50_000_000  # more than sockets hold
    asked = b"GET / HTTP/1.1\r\n\r\n"
    asked_for = threading.Event()

    def page(_request: http_port.HttpRequest) -> HttpAnswer:
        asked_for.set()
        return HttpAnswer("200 OK", bytes(size))

    with serving(page) as port, connections(port.server_port, 1, asked) as (unread,):
        assert asked_for.wait(LIMIT_S)
        until_s = time.monotonic() + LIMIT_S
        while port._answering:
            assert time.monotonic() < until_s
            time.sleep(0.01)
        assert sum(map(len, iter(lambda: unread.recv(1 << 20), b""))) < size


def test_pages_that_take_long_keep_no_quick_one_waiting() -> None:
    may_go_on = threading.Event()

    def slow() -> HttpAnswer:
        assert may_go_on.wait(LIMIT_S)
        return plain("200 OK", "slow")

    def page(request: http_port.HttpRequest) -> HttpAnswer | Callable[[], HttpAnswer]:
        return slow if request.path == "/slow" else plain("200 OK", "quick")

    with serving(page) as served, ThreadPoolExecutor(10) as callers:
        port = served.server_port
        pages = [callers.submit(page_of, port, "/slow") for _ in range(10)]
        assert [page_of(port, "/quick") for _ in range(5)] == [b"quick\n"] * 5
        assert not any(page.done() for page in pages)
        may_go_on.set()
        assert {page.result(LIMIT_S) for page in pages} == {b"slow\n"}


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"GET /readyz?a=b HTTP/1.0\r\n\r\n", b"200", id="HTTP/1.0 with a query"),
        pytest.param(b"HEAD /readyz HTTP/1.1\r\n\r\n", b"200", id="HEAD"),
        pytest.param(b"POST /readyz HTTP/1.1\r\n\r\n", b"405", id="POST"),
        pytest.param(b"\x16\x03\x01\r\n\r\n", b"400", id="no HTTP"),
        pytest.param(b"GET /readyz HTTP/2.0\r\n\r\n", b"400", id="another version"),
        pytest.param(b"GET /" + b"x" * 40_000, b"431", id="a request line that does not end"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000 + b"\r\n\r\n", b"431", id="a long header"),
    ],
)
def test_each_form_of_request_has_its_status(request_bytes: bytes, status: bytes) -> None:
    with metrics_port() as port, connections(port, 1, request_bytes) as (caller,):
        assert caller.recv(12) == b"HTTP/1.1 " + status


def test_a_page_that_fails_is_answered_and_the_port_goes_on() -> None:
    def page(request: http_port.HttpRequest) -> HttpAnswer:
        if request.path == "/fails":
            raise KeyError("a fault")
        return plain("200 OK", request.path)

    with serving(page) as served:
        with pytest.raises(urllib.error.HTTPError, match="500"):
            page_of(served.server_port, "/fails")
        assert page_of(served.server_port, "/a%20b") == b"/a b\n"


def test_metrics_are_packed_for_callers_that_accept_it() -> None:
    with metrics_port() as port:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked, timeout=LIMIT_S) as page:
            assert page.headers["Content-Encoding"] == "gzip"


@contextmanager
def serving(page: Callable[[http_port.HttpRequest], HttpAnswer | Callable[[], HttpAnswer]]) -> Iterator[HttpPort]:
    port = serve_http("127.0.0.1", 0, None, page)
    try:
        yield port
    finally:
        port.close()
