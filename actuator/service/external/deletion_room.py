"""How many nodes a Cluster Autoscaler may still have deleted within the hour, which it learns before it drains them.

The protocol has no answer for "not now" before the drain: `NodeGroupDeleteNodes` comes after it. But the caller never
removes a node of a group at its minimum size, and asks for that before it taints. So while the limit per hour leaves
less room, groups are answered with a minimum that leaves as much. Decides only these minimums; what is ordered is still
checked when it is ordered. Thread-safe.
Source: CA, scaledown/planner: `NodeGroupMinSizeReached`; the external provider keeps minimums until its next `Refresh`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trimtab.actuator.cloud.provider import NodeGroupView
from trimtab.actuator.runner.event_processor import EventProcessor
from trimtab.actuator.tracker.admission import DeletionLimits, GroupSizeFacts, hourly_limit
from trimtab.actuator.tracker.tracker import Tracker


class _BoundedGroups(NamedTuple):
    """Groups as read from the cloud, the limits and the revision for which they were bounded, and the result. `groups`,
    `bounded` : by id.
    """

    groups: Mapping[str, NodeGroupView]
    limits: DeletionLimits
    revision: int
    bounded: Mapping[str, NodeGroupView]


class DeletionRoom:
    """The room that the limit per hour leaves, for all groups together."""

    def __init__(self, processor: EventProcessor, limits: Callable[[], DeletionLimits]) -> None:
        """Set up; `limits` returns the limits that the access policy currently sets."""
        self._processor = processor
        self._limits = limits
        # The last answer, and what it was made of: a loop of the caller asks for the group of each node.
        self._answer: _BoundedGroups | None = None

    def bounded(self, groups: Mapping[str, NodeGroupView]) -> Mapping[str, NodeGroupView]:
        """Return groups, which the caller must not change, with the minimums to answer with; the same ones if there is
        no limit. Raises `StoreError`.
        """
        limits, revision, answer = self._limits(), self._processor.revision, self._answer
        if limits.max_nodes_per_hour is None and limits.max_share_per_hour is None:
            return groups
        if answer is None or answer.groups is not groups or (answer.limits, answer.revision) != (limits, revision):
            self._answer = answer = _BoundedGroups(groups, limits, revision, self._made(groups, limits))
        return answer.bounded

    def _made(self, groups: Mapping[str, NodeGroupView], limits: DeletionLimits) -> Mapping[str, NodeGroupView]:
        facts = {name: GroupSizeFacts(group.min_size, group.target_size) for name, group in groups.items()}

        def look(tracker: Tracker, now_ms: int) -> int | None:
            return hourly_limit(tracker.data, facts, limits, now_ms).left

        left = self._processor.read(look)
        if left is None:
            return groups
        return {
            name: group._replace(min_size=max(group.min_size, min(group.target_size - left, group.max_size)))
            for name, group in groups.items()
        }
