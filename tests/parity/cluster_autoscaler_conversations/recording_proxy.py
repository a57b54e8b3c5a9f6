"""A gRPC proxy that forwards the bytes of unary calls unchanged, and records both sides."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from tests.builders.tls import OwnCa
from tests.parity.cluster_autoscaler_conversations.conversation import Call

MAX_BYTES = 128 << 20
OPTIONS = [("grpc.max_receive_message_length", MAX_BYTES), ("grpc.max_send_message_length", MAX_BYTES)]


class RecordingProxy(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Calls of a channel, kept in the order of their answers."""

    def __init__(self, upstream: grpc.Channel) -> None:
        self._upstream = upstream
        self._lock = threading.Lock()
        self._begun_s = time.monotonic()
        self.calls: list[Call] = []

    def service(self, details: Any) -> Any:
        """Return the handler of a method."""
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._pass_on(details.method, request, context)
        )

    def _pass_on(self, method: str, request: bytes, context: grpc.ServicerContext) -> bytes:
        at_s, answer, code, details = time.monotonic(), b"", grpc.StatusCode.OK, ""
        call: Any = self._upstream.unary_unary(method, bytes, bytes)
        try:
            answer = call(request, timeout=context.time_remaining())
        except grpc.RpcError as error:
            code, details = error.code(), error.details() or ""
        at_ms, took_ms = round((at_s - self._begun_s) * 1000), round((time.monotonic() - at_s) * 1000)
        with self._lock:
            self.calls.append(Call(method, at_ms, took_ms, request, answer, code.name))
        if code is not grpc.StatusCode.OK:
            context.abort(code, details)
        return answer


@contextmanager
def recording(listen: str, upstream: str, ca: OwnCa, client_certificates: bool) -> Iterator[RecordingProxy]:
    """Take calls at an address with the CA's certificate "server", pass them on with "client"."""
    files = {
        name: (ca.directory / name).read_bytes() for name in ("server.key", "server.crt", "client.key", "client.crt")
    }
    trusted = ca.ca.read_bytes()
    towards = grpc.ssl_channel_credentials(trusted, files["client.key"], files["client.crt"])
    pair = (files["server.key"], files["server.crt"])
    own = grpc.ssl_server_credentials([pair], trusted if client_certificates else None, client_certificates)
    with grpc.secure_channel(upstream, towards, options=OPTIONS) as channel:
        proxy = RecordingProxy(channel)
        server = grpc.server(ThreadPoolExecutor(32), handlers=[proxy], options=OPTIONS)
        server.add_secure_port(listen, own)
        server.start()
        try:
            yield proxy
        finally:
            server.stop(None).wait()
