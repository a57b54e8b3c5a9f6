"""The tracker's data of the last hour, for the limit on deletions: the nodes for which the cloud was called, and how
many nodes there were. Decides how events change these data, and the least number of nodes within the last hour: a
growth must not raise the share that may go. Times are Unix milliseconds.
"""

from collections.abc import Set

from trimtab.actuator.tracker import events as e
from trimtab.actuator.tracker.states import HOUR_MS, NodeCount, TrackerData


def handle(data: TrackerData, event: e.Event, now_ms: int) -> None:
    """Apply an event about the last hour."""
    match event:
        case e.NodesCounted(count=count):
            # A larger count before this one never is the least again.
            while data.node_counts and data.node_counts[-1].count >= count:
                data.node_counts.pop()
            data.node_counts.append(NodeCount(count, now_ms))
        case e.AbsenceEnded(by_ms=by_ms):
            move_times(data, by_ms)
        case e.TimeNoted():
            pass
        case _:
            raise AssertionError(f"{type(event).__name__} is not an event of the hour")


def count_nodes(data: TrackerData, registered: Set[str], now_ms: int) -> int:
    """Return the number of nodes for the limit: the registered ones, by name, and those deleted within the hour."""
    removed = [call.node for call in data.cloud_deletion_calls if call.time_ms > now_ms - HOUR_MS]
    return len(registered - set(removed)) + len(removed)


def least_count(data: TrackerData, now_ms: int) -> int | None:
    """Return the least number of nodes within the last hour; None = they were never counted."""
    since_ms, counts = now_ms - HOUR_MS, data.node_counts
    # Each is larger than the one before, and in force until the next one.
    ended = sum(later.time_ms <= since_ms for later in counts[1:])
    return counts[ended].count if counts else None


def move_times(data: TrackerData, by_ms: int) -> None:
    """Shift all times of the hour."""
    for call in data.cloud_deletion_calls:
        call.time_ms += by_ms
    for counted in data.node_counts:
        counted.time_ms += by_ms


def forget(data: TrackerData, now_ms: int) -> None:
    """Drop what was before the last hour."""
    since_ms = now_ms - HOUR_MS
    while data.cloud_deletion_calls and data.cloud_deletion_calls[0].time_ms <= since_ms:
        data.cloud_deletion_calls.pop(0)
    while len(data.node_counts) > 1 and data.node_counts[1].time_ms <= since_ms:
        data.node_counts.pop(0)
