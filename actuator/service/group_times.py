"""When node groups last grew, lost a node and failed to, as far as the tracker's data goes back.

Decides nothing. Times are Unix milliseconds, 0 = not, or longer ago than the data.
"""

from dataclasses import dataclass

from actuator.tracker.states import State, TrackerData


@dataclass
class GroupTimes:
    """Last times of one node group."""

    scale_up_ms: int = 0
    deletion_ms: int = 0
    failure_ms: int = 0


def group_times(data: TrackerData) -> dict[str, GroupTimes]:
    """Return the last times by node group. A cancelled deletion has begun, but not failed."""
    times: dict[str, GroupTimes] = {}
    for record in data.growths.values():
        for answer in record.answers or ():
            if answer.accepted:
                one = times.setdefault(answer.node_group, GroupTimes())
                one.scale_up_ms = max(one.scale_up_ms, record.time_ms)
    for deletion in (*data.deletions.values(), *data.finished):
        one = times.setdefault(deletion.node_group, GroupTimes())
        one.deletion_ms = max(one.deletion_ms, deletion.start_ms)
        if deletion.state is State.FAILED:
            one.failure_ms = max(one.failure_ms, deletion.state_ms)
    return times
