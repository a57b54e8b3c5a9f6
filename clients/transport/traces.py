"""Traces of calls, on the client's side.

Decides that a call carries the trace that its caller is in, where this process has traces (see `telemetry`) and the
extra `otlp` is installed. Never starts them, and loads nothing where there are none.
"""

import sys
from importlib import import_module
from typing import Any

import grpc


def traced(channel: grpc.Channel) -> grpc.Channel:
    """Return a channel each of whose calls is a span of the present trace; the channel itself where there are none."""
    if "opentelemetry.sdk.trace" not in sys.modules:
        return channel
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        return channel
    try:
        instrumentation: Any = import_module("opentelemetry.instrumentation.grpc")
        extension: Any = import_module("opentelemetry.instrumentation.grpc.grpcext")
    except ModuleNotFoundError:
        # A program that uses these clients may have traces of its own.
        return channel
    intercepted: grpc.Channel = extension.intercept_channel(channel, instrumentation.client_interceptor())
    return intercepted
