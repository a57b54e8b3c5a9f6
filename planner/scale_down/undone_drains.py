"""Drains that slack undoes: how long no drain is started after one. A plan drains nodes whose pods and placeholders fit
elsewhere. The scheduler decides where the pods really go, for example to the emptiest nodes, where room was kept for
placeholders that fit nowhere else. New nodes come for these, the next plan drains other nodes, and so on forever. So if
slack lacks room after a drain although there are no more pods than before, no node with pods to move goes for ten
minutes, doubled each time it happens again, up to a day. A drain after which slack has all its room for ten minutes
ends the series. Nodes without pods to move do not wait for that, nor does any node where the cluster has no slack.
Pure: the moment comes with the request. Times in Unix nanoseconds.
"""

from typing import Final, NamedTuple

from trimtab.planner.model.settings import SECOND_NS
from trimtab.v1 import plan_pb2 as pb

FIRST_PAUSE_NS: Final = 600 * SECOND_NS
LONGEST_PAUSE_NS: Final = 86_400 * SECOND_NS
SETTLED_NS: Final = 600 * SECOND_NS
"""If slack has all its room after this time, with no deletion in progress, the drain was harmless."""
_MOST_TIMES: Final = 30


class UndoneDrains(NamedTuple):
    """drain_ns : time of the last drain whose result is not known yet, 0 = none; pod_count : number of pods at that
    time; times : drains undone in a row; until_ns : no drain is started before, 0 = no wait."""

    drain_ns: int = 0
    pod_count: int = 0
    times: int = 0
    until_ns: int = 0


class Slack(NamedTuple):
    """Findings of the loop. lacking : a placeholder has no place on an existing node; leaving : nodes are being
    deleted; pod_count : pods now, without those that no controller recreates elsewhere; undone : drains undone so far.
    """

    lacking: bool
    leaving: bool
    pod_count: int
    undone: UndoneDrains = UndoneDrains()


def judged(before: UndoneDrains, slack: Slack, now_ns: int) -> UndoneDrains:
    """Return the updated record after this loop has seen the result of the last drain."""
    if not before.drain_ns:
        return before
    if slack.lacking and slack.pod_count > before.pod_count:
        # There are more pods: they have taken the room, regardless of where those of the drained nodes are.
        return before._replace(drain_ns=0, pod_count=0)
    if slack.lacking:
        pause_ns = min(FIRST_PAUSE_NS << before.times, LONGEST_PAUSE_NS)
        return UndoneDrains(0, 0, min(before.times + 1, _MOST_TIMES), now_ns + pause_ns)
    if now_ns - before.drain_ns >= SETTLED_NS and not slack.leaving:
        return UndoneDrains()
    return before


def drained(before: UndoneDrains, slack: Slack, now_ns: int) -> UndoneDrains:
    """Return the record after nodes with pods to move go. If slack already lacks room, the drain is not recorded."""
    return before if slack.lacking else before._replace(drain_ns=now_ns, pod_count=slack.pod_count)


def read(state: pb.UndoneDrains, now_ns: int) -> UndoneDrains:
    """Return the record from a state. A drain in the future (clocks differ) counts as now; pauses are capped at the
    longest.
    """
    # A state may contain times that no clock shows.
    drain_ns, until_ns = (one.seconds * SECOND_NS + one.nanos for one in (state.drain_time, state.until_time))
    return UndoneDrains(
        drain_ns=max(min(drain_ns, now_ns), 0),
        pod_count=max(state.pod_count, 0),
        times=min(max(state.times, 0), _MOST_TIMES),
        until_ns=max(min(until_ns, now_ns + LONGEST_PAUSE_NS), 0),
    )


def write(kept: UndoneDrains, state: pb.ScaleDownState) -> None:
    """Write the record to a state; nothing if it is empty."""
    if kept == UndoneDrains():
        return
    found = state.undone_drains
    found.pod_count, found.times = kept.pod_count, kept.times
    if kept.drain_ns:
        found.drain_time.FromNanoseconds(kept.drain_ns)
    if kept.until_ns:
        found.until_time.FromNanoseconds(kept.until_ns)
