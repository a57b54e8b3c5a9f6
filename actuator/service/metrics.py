"""The actuator's metrics, from its durable events.

Decides names and labels: the Cluster Autoscaler's names where it has them, labels from enumerations only.
Times in seconds. Source: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/proposals/metrics.md.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.service.group_views import group_times
from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.groups import KEPT, REGISTRATION
from trimtab.actuator.tracker.states import FINAL_STATES, Deletion, State
from trimtab.actuator.tracker.tracker import Tracker
from trimtab.v1 import reason_pb2

# Upper bounds of the ages by which deletions are counted, seconds. A drain may take an hour by default.
AGES = {"1m": 60.0, "10m": 600.0, "1h": 3600.0, "more": float("inf")}


class Metrics:
    """The actuator's metrics."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._unknown_taint_count = 0
        self._deleted = meter.create_counter("scaled_down_nodes", description="Nodes deleted")
        self._deleted_gpu = meter.create_counter("scaled_down_gpu_nodes", description="GPU nodes deleted")
        self._failed = meter.create_counter("failed_scale_downs", description="Deletions failed or cancelled")
        self._evictions = meter.create_counter("evictions", description="Eviction requests by result")
        self._failed_growths = meter.create_counter("failed_scale_ups", description="Scale-ups that added no node")
        self._unregistered = meter.create_counter(
            "old_unregistered_nodes_removed", description="Instances deleted because they never registered"
        )
        self._durations = meter.create_histogram("function_duration", unit="s", description="Time of functions")
        self._scale_down = meter.create_histogram(
            "scale_down_duration", unit="s", description="From the taint until the node is gone"
        )

    def watch(self, processor: EventProcessor) -> None:
        """Count the processor's events, and export what is in progress."""
        processor.listeners.append(self.on_event)

        def in_progress(_options: CallbackOptions) -> Iterable[Observation]:
            counts = processor.read(_counts)
            return [Observation(count, {"state": state.name, "age": age}) for (state, age), count in counts.items()]

        def oldest(_options: CallbackOptions) -> Iterable[Observation]:
            ages = processor.read(_oldest_ages_s)
            return [Observation(age_s, {"state": state.name}) for state, age_s in ages.items()]

        def leads(_options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(int(processor.leading))]

        self._meter.create_observable_gauge("deletions_in_progress", [in_progress], description="By state and age")
        self._meter.create_observable_gauge(
            "oldest_deletion_age", [oldest], unit="s", description="Age of the oldest deletion in each state"
        )
        self._meter.create_observable_gauge(
            "unknown_taints",
            [lambda _options: [Observation(self._unknown_taint_count)]],
            description="Nodes with the hard taint and without a deletion in progress, when nodes were last listed",
        )

        def groups(_options: CallbackOptions) -> Iterable[Observation]:
            counts = processor.read(_group_counts)
            return [Observation(count, {"health": health}) for health, count in counts.items()]

        def missing(_options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(processor.read(lambda tracker, _: len(tracker.data.unregistered)))]

        self._meter.create_observable_gauge(
            "unhealthy_node_groups", [groups], description="Groups that wait for nodes or are in back-off"
        )
        self._meter.create_observable_gauge(
            "unregistered_nodes", [missing], description="Instances that run without a Node object"
        )
        self._meter.create_observable_gauge("leading", [leads], description="1 while this process may act")

    def on_event(self, event: e.Event, tracker: Tracker, now_ms: int) -> None:
        """Count deletions that have just ended, growths that failed and instances that never registered."""
        if isinstance(event, e.GroupFailed | e.GroupBackedOff) and not event.activity.startswith(KEPT):
            self._failed_growths.add(1, {"reason": "timeout" if event.activity.startswith("timeout/") else "activity"})
        elif isinstance(event, e.InstancesAccepted) and event.request_id.startswith(REGISTRATION):
            self._unregistered.add(len(event.nodes))
        if not isinstance(event, e.NodeEvent) or not tracker.data.finished:
            return
        last = tracker.data.finished[-1]
        if last.node != event.node or not isinstance(event, e.InstanceGone | e.NodeGone | e.RolledBack):
            return
        if event.node not in tracker.data.deletions:
            self._on_end(last, now_ms)

    def on_unknown_taints(self, count: int) -> None:
        """Export how many nodes carry the hard taint without a deletion known here."""
        self._unknown_taint_count = count

    def on_eviction(self, result: str, daemon: bool = False) -> None:
        """Count an eviction request: granted, budget (refused for now), gone (no such pod), error."""
        self._evictions.add(1, {"result": result, "kind": "daemon" if daemon else "moved"})

    @contextmanager
    def timed(self, function: str, non_empty: bool) -> Iterator[None]:
        """Measure a function. Empty calls have a separate label, because their zeros would hide the rest."""
        started = time.perf_counter()
        try:
            yield
        finally:
            labels = {"function": function, "work": "non_empty" if non_empty else "empty"}
            self._durations.record(time.perf_counter() - started, labels)

    def _on_end(self, deletion: Deletion, now_ms: int) -> None:
        kind = "drain" if deletion.drain else "empty"
        if deletion.state is not State.DELETED:
            self._failed.add(1, {"reason": reason_name(deletion.reason), "kind": kind})
            return
        self._deleted.add(1, {"reason": "underutilized" if deletion.drain else "empty"})
        if deletion.gpu:
            self._deleted_gpu.add(1, {"reason": "underutilized" if deletion.drain else "empty"})
        self._scale_down.record((now_ms - (deletion.tainted_ms or deletion.start_ms)) / 1000, {"kind": kind})


def _counts(tracker: Tracker, now_ms: int) -> dict[tuple[State, str], int]:
    """Return the number of deletions in progress by state and age, zeros included."""
    counts = {(state, age): 0 for state in State if state not in FINAL_STATES for age in AGES}
    for deletion in tracker.data.deletions.values():
        counts[deletion.state, _age(now_ms - deletion.start_ms)] += 1
    return counts


def _group_counts(tracker: Tracker, now_ms: int) -> dict[str, int]:
    """Return how many groups wait for nodes, are backed off until a node joins, and are backed off until a time."""
    data = tracker.data
    timed = sum(times.backoff_until_ms > now_ms and not times.waits for times in group_times(data).values())
    return {"awaiting": len(data.awaited), "backed_off_until_joined": len(data.backoffs), "backed_off": timed}


def _age(age_ms: int) -> str:
    """Return the name of the first age that is not passed yet."""
    return next(name for name, most_s in AGES.items() if age_ms <= most_s * 1000)


def _oldest_ages_s(tracker: Tracker, now_ms: int) -> dict[State, float]:
    """Return the age of the oldest deletion in each state, 0 where there is none."""
    ages = {state: 0.0 for state in State if state not in FINAL_STATES}
    for deletion in tracker.data.deletions.values():
        ages[deletion.state] = max(ages[deletion.state], (now_ms - deletion.start_ms) / 1000)
    return ages


def reason_name(reason: int) -> str:
    """Return the name of a `DeletionReason.Code`."""
    return reason_pb2.DeletionReason.Code.Name(reason)  # type: ignore[arg-type]
