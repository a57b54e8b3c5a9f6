"""Stage times and metrics of the planner's service.

Decides names and labels of metrics: label values are enum names and the fixed names of stages. Times in seconds.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from numba.core import event
from opentelemetry.metrics import Meter

from trimtab.planner.compiled.kernel_cache import COMPILED_ELSEWHERE
from trimtab.planner.model.execution import RequestLimits
from trimtab.v1 import plan_pb2 as pb

COMPILE: Final = "compile"
"""The stage of kernels that are compiled on first use: after a quick start, or where no cache can be written."""


class _CompileClock(event.Listener):
    """Adds up the time that threads spend compiling, seconds; a kernel compiled for another one counts once."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self._here = threading.local()

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        self._here.depth = getattr(self._here, "depth", 0) + 1
        if self._here.depth == 1:
            self._here.began_s = time.perf_counter()

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        self._here.depth -= 1
        if not self._here.depth:
            self.total_s += time.perf_counter() - self._here.began_s


_clock: Final = _CompileClock()
for _kind in ("numba:compile", COMPILED_ELSEWHERE):
    event.register(_kind, _clock)  # type: ignore[no-untyped-call]


def compile_seconds() -> float:
    """Return for how long this process has compiled kernels, or waited for another one that did."""
    return _clock.total_s


class Instruments:
    """The planner's metrics; Prometheus adds unit and `_total`."""

    def __init__(self, meter: Meter) -> None:
        self._durations = meter.create_histogram("function_duration", unit="s", description="Time of each stage")
        self._plans = meter.create_counter("plans", description="Decisions by kind and result")
        self._failures = meter.create_counter("failed_decisions", description="Decisions that ended with an error")
        self._bases = meter.create_counter("snapshot_bases", description="Snapshots received: whole, by delta, or lost")

    def stage(self, name: str, duration_s: float) -> None:
        """Record one stage."""
        self._durations.record(duration_s, {"function": name})

    def plan(self, decision: str, result: str) -> None:
        """Count one decision; `decision` and `result` are names of enumerations."""
        self._plans.add(1, {"decision": decision, "result": result})

    def failure(self, decision: str) -> None:
        """Count a decision that failed; `decision` is the name of its code."""
        self._failures.add(1, {"decision": decision})

    def base(self, kind: str) -> None:
        """Count a snapshot: "whole", "delta" or "unknown" (its base was not in the cache)."""
        self._bases.add(1, {"kind": kind})


class StopWatch:
    """Times of the stages of one call. The time of an inner stage is subtracted from that of the outer one; so is the
    time in which this process compiled kernels, which is a stage of its own.
    """

    def __init__(self, limits: RequestLimits, instruments: Instruments) -> None:
        self.limits = limits
        self._instruments = instruments
        self._times: dict[str, float] = {}
        self._inner = [0.0]
        self._compiled = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage. Raises ServiceError if the deadline has passed or the caller has gone."""
        self.limits.check()
        self._times.setdefault(name, 0.0)
        self._inner.append(0.0)
        started, compiled = time.perf_counter(), compile_seconds() - self._compiled
        try:
            yield
        finally:
            whole, own = time.perf_counter() - started, self._inner.pop()
            # Less what inner stages have handed over already; other threads may have compiled for longer than this.
            spent = min(compile_seconds() - self._compiled - compiled, whole - own)
            if spent > 0:
                self._compiled += spent
                self._times[COMPILE] = self._times.get(COMPILE, 0.0) + spent
            self._times[name] += whole - own - max(spent, 0.0)
            self._inner[-1] += whole

    def write(self, diagnostics: pb.Diagnostics) -> None:
        """Write the times into an answer and the instruments."""
        for name, duration_s in self._times.items():
            stage = diagnostics.stages.add(stage=name)
            stage.duration.FromNanoseconds(round(duration_s * 1e9))
            self._instruments.stage(name, duration_s)

    def milliseconds(self) -> dict[str, float]:
        """Return the times for a log line."""
        return {name: round(duration_s * 1e3, 2) for name, duration_s in self._times.items()}
