"""Connections with half a message, or nothing: others are answered, on every kind of port."""

import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.builders.tls import OwnCa
from tests.builders.waiting import LIMIT_S
from trimtab.clients.loop.health import Health, HealthServer
from trimtab.common.rpc import http_port
from trimtab.common.rpc.client import connect
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.server import Registration, ServerSettings, Shell
from trimtab.v1 import actuator_pb2, actuator_pb2_grpc

CONNECTIONS = 150
"""More than an HTTP port has threads, fewer than it has connections: none of them makes room for others."""
PROBES = 20


class Servicer(actuator_pb2_grpc.ActuatorServicer):
    def GetInfo(self, request, context):
        return actuator_pb2.GetActuatorInfoResponse(version="1")


@contextmanager
def shell(security: PortSecurity) -> Iterator[Shell]:
    registration = Registration(actuator_pb2_grpc.add_ActuatorServicer_to_server, Servicer(), "trimtab.v1.Actuator")
    settings = ServerSettings(security=security, metrics_address="127.0.0.1:0", max_workers=16)
    with Shell("test", [registration], settings) as running:
        yield running


@contextmanager
def half_sent(address: str, beginning: bytes) -> Iterator[None]:
    """Open connections that send `beginning` and then stay silent."""
    host, _, port = address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            opened = stack.enter_context(socket.create_connection((host, int(port)), timeout=LIMIT_S))
            opened.sendall(beginning)
        yield


def answered(address: str, path: str, ca: OwnCa | None) -> bytes:
    context = None if ca is None else ssl.create_default_context(cafile=str(ca.ca))
    url = f"{'http' if ca is None else 'https'}://{address}{path}"
    with urllib.request.urlopen(url, timeout=LIMIT_S, context=context) as page:
        return bytes(page.read())


HELLO = bytes([22, 3, 1, 2, 0, 1, 0, 1])
"""The first bytes of a TLS handshake."""
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no connection ended for its silence: others are answered while all are open."""
    for name in ("_REQUEST_S", "_LONGEST_S"):
        monkeypatch.setattr(http_port, name, 3 * LIMIT_S)


def check_answers(kind: str, beginning: bytes, ca: OwnCa | None) -> None:
    """Check that a port of this kind answers in spite of such connections."""
    with ExitStack() as stack:
        running = stack.enter_context(shell(PortSecurity() if ca is None else ca.port()))
        security = PortSecurity() if ca is None else ca.port(client_ca=False)
        health = stack.enter_context(HealthServer("127.0.0.1:0", Health(60.0), security))
        addresses = {"calls": running.address, "metrics": running.telemetry.metrics_address, "health": health.address}
        stack.enter_context(half_sent(addresses[kind], beginning))
        if kind != "calls":
            for _ in range(PROBES):
                assert answered(addresses[kind], "/healthz", ca) == b"ok\n"
            return
        with connect(running.address, None if ca is None else ca.channel("client")) as channel:
            info = actuator_pb2_grpc.ActuatorStub(channel).GetInfo
            assert info(actuator_pb2.GetActuatorInfoRequest(), timeout=LIMIT_S).version == "1"


@pytest.mark.parametrize("beginning", [b"", HELLO], ids=["silence", "half a handshake"])
@pytest.mark.parametrize("kind", ["calls", "metrics", "health"])
def test_a_port_with_tls_answers_beside_half_sent_handshakes(ca: OwnCa, kind: str, beginning: bytes) -> None:
    check_answers(kind, beginning, ca)


@pytest.mark.parametrize("beginning", [HTTP2, b"GET /healthz HTTP/1.1\r\nX: "], ids=["HTTP/2", "HTTP/1.1"])
@pytest.mark.parametrize("kind", ["calls", "metrics", "health"])
def test_a_port_in_plain_text_answers_beside_half_sent_requests(kind: str, beginning: bytes) -> None:
    check_answers(kind, beginning, None)
