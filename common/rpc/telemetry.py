"""Logs, metrics and traces of a service.

Decides their form: logs are JSON lines on standard error, or lines of text for people; metrics are OpenTelemetry's,
served for Prometheus when an address is given; traces go to a collector when `OTEL_EXPORTER_OTLP_ENDPOINT` is set and
the extra `trimtab[otlp]` is installed.
Never decides what is logged or measured. Buckets are in seconds.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import structlog
from opentelemetry import trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from trimtab.common.rpc.addresses import split_address
from trimtab.common.rpc.metrics_endpoint import serve_metrics
from trimtab.common.rpc.options import LogFormat
from trimtab.common.rpc.port_security import PortSecurity
from trimtab.common.rpc.text_logs import TextRenderer

ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
# From a millisecond (a status call) to two hours (a drain); OpenTelemetry's own defaults are milliseconds.
BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200)

log = structlog.get_logger("telemetry")


@dataclass
class Telemetry:
    """The telemetry of a running service; `close` ends it. `meter` : makes the service's metrics."""

    meter: Meter
    # Address of the Prometheus endpoint; "" = none.
    metrics_address: str = ""
    # Whether calls are spans of traces.
    traces: bool = False
    # Called once at the end.
    closers: list[Callable[[], object]] = field(default_factory=list)
    # Set while the service accepts calls; `/readyz` beside the metrics reports it.
    ready: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Flush and stop everything."""
        for closer in self.closers:
            closer()
        self.closers.clear()


def terminal_format() -> LogFormat:
    """Return the form for the present standard error: text for people on a terminal, else JSON."""
    return LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON


def configure_logging(level: str = "info", form: LogFormat = LogFormat.JSON) -> None:
    """Log lines of at least `level` ("debug", "info", "warning", "error") to standard error."""
    names = logging.getLevelNamesMapping()
    if level.upper() not in names:
        raise ValueError(f"log level {level!r} is unknown; use one of debug, info, warning, error")
    as_json = [structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            *(as_json if form is LogFormat.JSON else [TextRenderer()]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(names[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def start_telemetry(service: str, metrics_address: str = "", security: PortSecurity | None = None) -> Telemetry:
    """Start metrics and, where configured, traces. `metrics_address` is "host:port", port 0 = any, "" = none.

    Raises OSError, ValueError if the address or the files of `security` cannot be used.
    """
    security = security or PortSecurity()
    resource = Resource.create({"service.name": service})
    view = View(instrument_type=Histogram, aggregation=ExplicitBucketHistogramAggregation(BUCKETS_S))
    readers: list[Any] = [PrometheusMetricReader()] if metrics_address else []
    provider = MeterProvider(metric_readers=readers, resource=resource, views=[view], shutdown_on_exit=False)
    telemetry = Telemetry(provider.get_meter(service), closers=[provider.shutdown])
    if metrics_address:
        host, port = split_address(metrics_address)
        security.check_exposure("--metrics-address", host)
        bound, close = serve_metrics(host, port, security, telemetry.ready.is_set)
        telemetry.metrics_address = f"{host}:{bound}"
        telemetry.closers.insert(0, close)
    if os.environ.get(ENDPOINT_VARIABLE):
        _start_traces(telemetry, resource)
    return telemetry


def _start_traces(telemetry: Telemetry, resource: Resource) -> None:
    """Send spans to the collector; without the extra, log a warning and continue."""
    try:
        import_module("opentelemetry.instrumentation.grpc")
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    except ImportError:
        log.warning("no traces", detail=f"{ENDPOINT_VARIABLE} is set, but trimtab[otlp] is not installed")
        return
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    telemetry.traces = True
    telemetry.closers.append(provider.shutdown)
