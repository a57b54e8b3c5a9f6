"""How long no node is removed after a node group has grown, lost a node, or failed to lose one.

Decides whether a cool-down is in force, and why; the times come with the node groups, and unknown ones (0) delay
nothing. By default the cool-down of any group delays the whole cluster, for which simulation continues, to keep timers
running; with `delay_type_local` each group waits alone, and its nodes are not candidates meanwhile.
Source: Cluster Autoscaler, static_autoscaler.isScaleDownInCooldown, ScaleDownCandidatesDelayProcessor.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.model.settings import SECOND_NS, ScaleDownSettings
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.snapshot.columns import Bool
from trimtab.planner.snapshot.references import take_or


class Cooldown(NamedTuple):
    """cluster : why no node at all goes, "" = nodes may go; groups : by group why none of its nodes goes, "" = they
    may.
    """

    cluster: str
    groups: tuple[str, ...]

    def of_nodes(self, group: "np.ndarray[tuple[int], np.dtype[np.int32]]") -> Bool:
        """Return for each node whether its group waits. group : int32[N], -1 = none."""
        return take_or(np.array([bool(why) for why in self.groups], bool), group, False)


def cooldown(groups: tuple[NodeGroupInfo, ...], settings: ScaleDownSettings, now_ns: int) -> Cooldown:
    """Return which groups wait, and why. O(G)."""
    waits = [_longest(group, settings, now_ns) for group in groups]
    if settings.delay_type_local:
        return Cooldown("", tuple(why for _, why in waits))
    _, why = max(waits, default=(0, ""), key=lambda wait: wait[0])
    return Cooldown(why, ("",) * len(groups))


def _longest(group: NodeGroupInfo, settings: ScaleDownSettings, now_ns: int) -> tuple[int, str]:
    """Return how many nanoseconds longer a group waits, and why; (0, "") if it does not."""
    reasons = (
        (group.last_scale_up_ns, settings.delay_after_add_ns, "was made larger"),
        (group.last_deletion_ns, settings.delay_after_delete_ns, "lost a node"),
        (group.last_failure_ns, settings.delay_after_failure_ns, "failed to lose a node"),
    )
    found = [
        (since_ns + delay_ns - now_ns, f"node group {group.id} {what} {_seconds(now_ns - since_ns)} ago; "
                f"no node is removed for {_seconds(delay_ns)} after that")
        for since_ns, delay_ns, what in reasons
        if since_ns > 0 and since_ns + delay_ns > now_ns
    ]  # fmt: skip
    return max(found, default=(0, ""), key=lambda wait: wait[0])


def _seconds(span_ns: int) -> str:
    """Return a span in whole seconds; a time in the future (clocks differ) counts as now."""
    return f"{max(span_ns, 0) // SECOND_NS} s"
