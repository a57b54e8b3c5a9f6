"""Traces of calls, on the client's side.

A call carries the trace of its caller, if this process has traces (see `telemetry`) and the extra `otlp` is installed.
Never starts traces, and loads nothing if there are none.
"""

import sys
from importlib import import_module
from typing import Any

import grpc


def traced(channel: grpc.Channel) -> grpc.Channel:
    """Return a channel whose calls are spans of the current trace; the channel itself if there are no traces."""
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
        # A program that uses these clients may have its own traces.
        return channel
    intercepted: grpc.Channel = extension.intercept_channel(channel, instrumentation.client_interceptor())
    return intercepted
