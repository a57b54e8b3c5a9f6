"""When node groups last grew, lost a node and failed to, as far as it is remembered.

Decides nothing. Times are Unix milliseconds, 0 = not, or longer ago than the tracker remembers.
"""

from dataclasses import dataclass

from actuator.tracker.states import Memory, State


@dataclass
class GroupTimes:
    """Last times of one node group."""

    scale_up_ms: int = 0
    deletion_ms: int = 0
    failure_ms: int = 0


def group_times(memory: Memory) -> dict[str, GroupTimes]:
    """The last times by node group. A cancelled deletion has begun, but not failed."""
    times: dict[str, GroupTimes] = {}
    for record in memory.growths.values():
        for answer in record.answers or ():
            if answer.accepted:
                one = times.setdefault(answer.node_group, GroupTimes())
                one.scale_up_ms = max(one.scale_up_ms, record.time_ms)
    for deletion in (*memory.deletions.values(), *memory.finished):
        one = times.setdefault(deletion.node_group, GroupTimes())
        one.deletion_ms = max(one.deletion_ms, deletion.start_ms)
        if deletion.state is State.FAILED:
            one.failure_ms = max(one.failure_ms, deletion.state_ms)
    return times
