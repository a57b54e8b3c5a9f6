"""The metrics endpoint answers whatever other connections it has."""

import socket
import threading
import urllib.request
from contextlib import ExitStack

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from clients.transport.metrics_endpoint import serve_metrics
from tests.builders.waiting import LIMIT_S


def test_idle_connections_take_no_thread_each_and_a_scrape_is_answered() -> None:
    before = threads()
    port, close = serve_metrics("127.0.0.1", 0)
    try:
        with ExitStack() as stack:
            for _ in range(7):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert b"python_info" in scrape(port)
            for _ in range(200):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert threads() <= before + 9
        assert b"python_info" in scrape_in_the_end(port)
    finally:
        close()


def threads() -> int:
    """Return the number of HTTP ports' threads; those of other tests come and go."""
    return sum(one.name.startswith("http") for one in threading.enumerate())


def scrape(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_S) as page:
        return page.read()


def scrape_in_the_end(port: int) -> bytes:
    """Return the page, once the server has seen that others disconnected; until then it accepts no connections."""
    for attempt in Retrying(
        retry=retry_if_exception_type(OSError), stop=stop_after_delay(LIMIT_S), wait=wait_fixed(0.05)
    ):
        with attempt:
            return scrape(port)
    raise AssertionError("the last attempt raises")
