"""A load balancer for gRPC calls: it forwards each call to one of several planners, chosen by the call's metadata."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import count
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import grpc

from trimtab.common.rpc.callers import CLUSTER_KEY, SESSION_KEY
from trimtab.common.rpc.client import connect
from trimtab.v1 import planner_pb2

FORWARDED: Final = (CLUSTER_KEY, SESSION_KEY)

Choice = Callable[[Mapping[str, str], list[str]], str]
"""Takes the metadata of a call and the names of the available planners, and returns one of them."""


def by_cluster(metadata: Mapping[str, str], names: list[str]) -> str:
    """Choose consistently: if a planner is missing, only its calls go elsewhere."""
    cluster = metadata[CLUSTER_KEY]
    return max(names, key=lambda name: blake2b(f"{cluster} {name}".encode()).digest())


def in_turn() -> Choice:
    """Return a round-robin choice, call by call."""
    turns = count()
    return lambda _metadata, names: names[next(turns) % len(names)]


class Forwarded(NamedTuple):
    """A forwarded call to `Plan`: its planner and cluster, whether it sent a delta, and whether it was answered."""

    planner: str
    cluster: str
    is_delta: bool
    is_answered: bool


class CallBalancer(grpc.GenericRpcHandler):
    """Listens on loopback. planners : addresses by name. Use as a context manager."""

    def __init__(self, planners: Mapping[str, str], choose: Choice) -> None:
        self._choose = choose
        self._channels = {name: connect(address) for name, address in planners.items()}
        self._lock = threading.Lock()
        self._names = list(planners)
        self.plans: list[Forwarded] = []
        self._server = grpc.server(ThreadPoolExecutor(8), handlers=[self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()
        for channel in self._channels.values():
            channel.close()

    def take_out(self, name: str) -> None:
        """Stop forwarding calls to a planner."""
        with self._lock:
            self._names.remove(name)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler that forwards a call. On the wire each kind of call is a stream of bytes both ways."""
        method, metadata = handler_call_details.method, _forwarded(handler_call_details.invocation_metadata)

        def forward(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            messages = list(requests)
            with self._lock:
                name = self._choose(metadata, list(self._names))
            call = self._channels[name].stream_stream(method)
            try:
                yield from call(iter(messages), metadata=tuple(metadata.items()), timeout=context.time_remaining())
                self._note(name, method, messages[0], is_answered=True)
            except grpc.RpcError as error:
                self._note(name, method, messages[0], is_answered=False)
                failed: Any = error
                context.set_trailing_metadata(failed.trailing_metadata())
                context.abort(failed.code(), failed.details())

        return grpc.stream_stream_rpc_method_handler(forward)

    def _note(self, name: str, method: str, first: bytes, is_answered: bool) -> None:
        if method.endswith("/Plan"):
            request = planner_pb2.PlanRequestPart.FromString(first).request
            with self._lock:
                self.plans.append(Forwarded(name, request.cluster, bool(request.base_version), is_answered))


def _forwarded(metadata: Any) -> dict[str, str]:
    return {key: value for key, value in metadata if key in FORWARDED}
