"""Which ways to place what waits are worth trying besides the usual one.

Which pods take the room that there is decides what is left for new nodes; no order is best for every cluster, and
the scheduler has one of its own. So a few are tried where that costs little. Decides nothing about plans
(`planner.scale_up.preference`).
"""

from collections.abc import Iterator
from typing import Final

from planner.placement.waiting import NodeOrder, PodOrder, Way
from planner.scale_up.report.finding import Finding

WAYS: Final = (
    Way(PodOrder.LARGEST_FIRST, NodeOrder.FULLEST_FIRST),
    Way(PodOrder.SMALLEST_FIRST, NodeOrder.EMPTIEST_FIRST),
    Way(PodOrder.LISTED, NodeOrder.LISTED),
    Way(PodOrder.LISTED_BACKWARDS, NodeOrder.EMPTIEST_FIRST),
)
MOST_WORK: Final = 1 << 16
"""Pods that wait, times nodes and groups that could take them, up to which other ways are tried."""


def other_ways(usual: Finding) -> Iterator[Way]:
    """Yield the ways to try besides the usual one, given its plan; none where that is too much work.

    Nothing is gained where no pod went to a node that exists, or all did. No further one once the time is over.
    """
    unserved, growing = usual.unserved, usual.growing
    left = len(unserved.left) + len(unserved.placeholders)
    waiting = len(unserved.pods) + len(unserved.placeholders)
    if not left or left == waiting:
        return
    if waiting * (len(unserved.where.order) + len(growing.groups)) > MOST_WORK:
        return
    time_left = usual.situation.request.round.time_left
    for way in WAYS:
        if time_left is not None and not time_left():
            return
        yield way
