"""A caller that makes calls of many kinds, one after another, and counts the answers.

A seeded generator chooses the next call; its time depends on the machine.
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Final, Protocol

import grpc

from trimtab.common.rpc.addresses import split_address
from trimtab.common.rpc.errors import TrimtabError

PAUSE_S: Final = 0.1
"""Pause between two calls of a caller, which leaves time for others."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Target(Protocol):
    """A service under test."""

    calls: Mapping[str, Callable[[Random], None]]

    def close(self) -> None:
        """Close the connections."""


class Answers:
    """The number of answers of each kind, by kind of call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, kind: str, answer: str) -> None:
        """Count an answer."""
        with self._lock:
            self.counts[kind, answer] += 1

    def unexpected(self) -> dict[tuple[str, str], int]:
        """Return the answers that should not occur: faults of the service, or no connection."""
        return {key: count for key, count in self.counts.items() if key[1] in ("INTERNAL", "UNKNOWN", "UNAVAILABLE")}


def call_until(stopped: threading.Event, make: Callable[[], Target], random: Random, answers: Answers) -> None:
    """Make calls until stopped; reconnect now and then."""
    while not stopped.is_set():
        target = make()
        try:
            for _ in range(random.randrange(5, 60)):
                kind = random.choice(list(target.calls))
                answers.add(kind, answered(target.calls[kind], random))
                if stopped.wait(PAUSE_S * random.random()):
                    break
        finally:
            target.close()


def answered(call: Callable[[Random], None], random: Random) -> str:
    """Return the name of the code that a call ended with."""
    try:
        call(random)
    except TrimtabError as error:
        return error.code.name
    except grpc.RpcError as error:
        return error.code().name if isinstance(error, grpc.Call) else "UNKNOWN"
    return "OK"


def break_connection(address: str, random: Random) -> None:
    """Open a connection as a gRPC client or another client does, and abandon it midway."""
    begun = random.choice((b"", b"GET / HTTP/1.1\r\n", PREFACE, PREFACE + random.randbytes(40), random.randbytes(200)))
    with socket.create_connection(split_address(address), timeout=30.0) as connection:
        connection.sendall(begun)
