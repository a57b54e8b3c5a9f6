"""Drains that slack undoes: how long no drain is started after one. A plan drains nodes whose pods and placeholders fit
elsewhere. The scheduler decides where the pods really go, for example to the emptiest nodes, where room was kept for
placeholders that fit nowhere else. New nodes come for these, the next plan drains other nodes, and so on forever. So if
slack lacks room after a drain although there are no more pods than before, no node with pods to move goes for ten
minutes, doubled each time it happens again, up to a day. A drain after which slack has all its room for ten minutes
ends the series. Nodes without pods to move do not wait for that, nor does any node where the cluster has no slack.
Pure: the moment comes with the request. Times in Unix nanoseconds.
"""

from typing import Final, NamedTuple

from trimtab.v1 import plan_pb2 as pb

from planner.model.settings import SECOND_NS

FIRST_PAUSE_NS: Final = 600 * SECOND_NS
LONGEST_PAUSE_NS: Final = 86_400 * SECOND_NS
SETTLED_NS: Final = 600 * SECOND_NS
"""After that, with no deletion in progress, a drain has left what slack needs."""
_MOST_TIMES: Final = 30


class UndoneDrains(NamedTuple):
    """drain_ns : when nodes were last drained of which it is not known yet what has come, 0 = none; pod_count : how
    many pods there were then; times : drains undone in a row; until_ns : until when none is started, 0 = at once."""

    drain_ns: int = 0
    pod_count: int = 0
    times: int = 0
    until_ns: int = 0


class Slack(NamedTuple):
    """What the loop finds. lacking : a placeholder has no place on a node that is there; leaving : nodes are being
    deleted; pod_count : pods now, without those that nobody creates again elsewhere; undone : drains undone so far."""

    lacking: bool
    leaving: bool
    pod_count: int
    undone: UndoneDrains = UndoneDrains()


def judged(before: UndoneDrains, slack: Slack, now_ns: int) -> UndoneDrains:
    """Return what is known once this loop has seen what came of the last drain."""
    if not before.drain_ns:
        return before
    if slack.lacking and slack.pod_count > before.pod_count:
        # More pods have come: they have taken the room, wherever those of the drained nodes are.
        return before._replace(drain_ns=0, pod_count=0)
    if slack.lacking:
        pause_ns = min(FIRST_PAUSE_NS << before.times, LONGEST_PAUSE_NS)
        return UndoneDrains(0, 0, min(before.times + 1, _MOST_TIMES), now_ns + pause_ns)
    if now_ns - before.drain_ns >= SETTLED_NS and not slack.leaving:
        return UndoneDrains()
    return before


def drained(before: UndoneDrains, slack: Slack, now_ns: int) -> UndoneDrains:
    """Return what to remember once nodes with pods to move go. Where slack lacks already, nothing can be told of it."""
    return before if slack.lacking else before._replace(drain_ns=now_ns, pod_count=slack.pod_count)


def read(state: pb.UndoneDrains, now_ns: int) -> UndoneDrains:
    """Return the part of a state. A drain in the future (clocks differ) counts as now, no pause is longer than any."""
    # A state may hold what no clock shows.
    drain_ns, until_ns = (one.seconds * SECOND_NS + one.nanos for one in (state.drain_time, state.until_time))
    return UndoneDrains(
        drain_ns=max(min(drain_ns, now_ns), 0),
        pod_count=max(state.pod_count, 0),
        times=min(max(state.times, 0), _MOST_TIMES),
        until_ns=max(min(until_ns, now_ns + LONGEST_PAUSE_NS), 0),
    )


def write(kept: UndoneDrains, state: pb.ScaleDownState) -> None:
    """Put what is kept into a state, nothing where there is nothing."""
    if kept == UndoneDrains():
        return
    found = state.undone_drains
    found.pod_count, found.times = kept.pod_count, kept.times
    if kept.drain_ns:
        found.drain_time.FromNanoseconds(kept.drain_ns)
    if kept.until_ns:
        found.until_time.FromNanoseconds(kept.until_ns)
