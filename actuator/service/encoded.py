"""Responses that are encoded already. A method may answer with the bytes of its response instead of the message: a
status of megabytes, most of it unchanged since the last one, is then assembled and sent without being built, copied and
encoded as a message.
"""

from typing import Any, NamedTuple

import grpc

from trimtab.v1 import actuator_pb2_grpc

SERVICE = "trimtab.v1.Actuator"


class EncodedResponse(NamedTuple):
    """The bytes of a response message."""

    data: bytes


def add_actuator(servicer: actuator_pb2_grpc.ActuatorServicer, server: Any) -> None:
    """Add the service to a server, as the generated function does; any method may answer `EncodedResponse`."""
    spy = _Spy()
    actuator_pb2_grpc.add_ActuatorServicer_to_server(servicer, spy)  # type: ignore[arg-type]
    handlers = {name: _twin(handler) for name, handler in spy.handlers.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_registered_method_handlers(SERVICE, handlers)


class _Spy:
    """Stands in for a server to receive the handlers of generated code."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Ignore these: the same handlers are registered by name."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Keep them."""
        assert service == SERVICE
        self.handlers = handlers


def _twin(handler: Any) -> Any:
    """Return the same handler with a serializer that passes bytes through. The service has no client streams."""
    if handler.response_streaming:
        build, behaviour = grpc.unary_stream_rpc_method_handler, handler.unary_stream
    else:
        build, behaviour = grpc.unary_unary_rpc_method_handler, handler.unary_unary
    return build(behaviour, handler.request_deserializer, _serializer(handler.response_serializer))


def _serializer(of_messages: Any) -> Any:
    def serialize(response: Any) -> bytes:
        return response.data if isinstance(response, EncodedResponse) else bytes(of_messages(response))

    return serialize
