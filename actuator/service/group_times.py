"""When node groups last grew, shrank, or failed to do so, as far back as the tracker's data go. Decides how long a
group is backed off after a failed growth: 5 min, doubled after each further failure, at most 30 min. A growth that the
cloud accepts ends the series, and so does the end of the records. If back-offs end by time, a cloud activity that fails
after the growth was accepted, or a node that does not join, also backs off the group; these back-offs double until
there was none for three hours. Otherwise the group waits for its one node, however long. A refusal because the size had
changed meanwhile is not a failure of the group. Times are Unix milliseconds, 0 = not, or longer ago than the data.
Source: Cluster Autoscaler, `--initial-node-group-backoff-duration`, `--max-node-group-backoff-duration`.
"""

from dataclasses import dataclass
from typing import Final

from trimtab.actuator.tracker.states import GrowthAnswer, State, TrackerData
from trimtab.v1 import reason_pb2

FIRST_BACKOFF_MS: Final = 300_000
LONGEST_BACKOFF_MS: Final = 1_800_000
_FAILURES: Final = (reason_pb2.GrowthReason.REFUSED, reason_pb2.GrowthReason.NOT_CARRIED_OUT)


@dataclass
class GroupTimes:
    """Last times of one node group. `refusal` : the cloud's text for the last failed growth; `waits` : backed off until
    a node joins. Times are Unix milliseconds, 0 = never. `scale_up_ms` : of the last growth that the cloud accepted;
    `deletion_ms` : start of the last deletion; `failure_ms` : end of the last one that failed; `backoff_until_ms` : end
    of the back-off.
    """

    scale_up_ms: int = 0
    deletion_ms: int = 0
    failure_ms: int = 0
    backoff_until_ms: int = 0
    refusal: str = ""
    waits: bool = False
    _failed_growths: int = 0
    _failed_activities: int = 0

    def note_growth(self, answer: GrowthAnswer, at_ms: int) -> None:
        """Take the result of a growth into account; call in order of time."""
        if answer.accepted:
            self.scale_up_ms = max(self.scale_up_ms, at_ms)
            self.backoff_until_ms = self._failed_growths = 0
            self.refusal = ""
        elif answer.reason in _FAILURES:
            self.backoff_until_ms = at_ms + min(FIRST_BACKOFF_MS << min(self._failed_growths, 10), LONGEST_BACKOFF_MS)
            self._failed_growths += 1
            self.refusal = answer.detail

    def note_failure(self, detail: str, at_ms: int) -> None:
        """Take a failed activity into account; call in order of time, after all growths. Of failures during a back-off
        only the text counts: they belong to the same growth.
        """
        self.refusal = detail
        if at_ms >= self.backoff_until_ms:
            pause_ms = min(FIRST_BACKOFF_MS << min(self._failed_activities, 10), LONGEST_BACKOFF_MS)
            self.backoff_until_ms = at_ms + pause_ms
            self._failed_activities += 1


def group_times(data: TrackerData) -> dict[str, GroupTimes]:
    """Return the last times by node group. A cancelled deletion began, but did not fail."""
    times: dict[str, GroupTimes] = {}
    for record in sorted(data.growths.values(), key=lambda growth: (growth.time_ms, growth.request_id)):
        for answer in record.grown:
            times.setdefault(answer.node_group, GroupTimes()).note_growth(answer, record.time_ms)
    for group, failures in data.group_failures.items():
        for failure in failures:
            if failure.timed:
                times.setdefault(group, GroupTimes()).note_failure(failure.detail, failure.time_ms)
    for group, backoff in data.backoffs.items():
        group_time = times.setdefault(group, GroupTimes())
        group_time.waits, group_time.refusal = True, backoff.detail
    for deletion in (*data.deletions.values(), *data.finished):
        group_time = times.setdefault(deletion.node_group, GroupTimes())
        group_time.deletion_ms = max(group_time.deletion_ms, deletion.start_ms)
        if deletion.state is State.FAILED:
            group_time.failure_ms = max(group_time.failure_ms, deletion.state_ms)
    return times
