"""Which nodes are worth simulating, and why the others are not.

One check after the other; the first that fails gives the reason. In upstream's order, then our own: node group minimum,
cluster minimum, a blocking pod, pending pods that scale-up has placed on the node. The three before the last avoid
simulations that cannot succeed.
Source: Cluster Autoscaler, core/scaledown/eligibility.

How long no node is removed after a node group has grown, lost a node, or failed to lose one.

Decides whether a cool-down is in force, and why; the times come with the node groups, and unknown ones (0) delay
nothing. By default the cool-down of any group delays the whole cluster, for which simulation continues, to keep timers
running; with `delay_type_local` each group waits alone, and its nodes are not candidates meanwhile.
Source: Cluster Autoscaler, static_autoscaler.isScaleDownInCooldown, ScaleDownCandidatesDelayProcessor.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trimtab.planner.facts.node_limits import Spare, consolidation_of_nodes
from trimtab.planner.facts.utilization import Utilization
from trimtab.planner.model.settings import SECOND_NS, ScaleDownSettings
from trimtab.planner.model.values import NodeGroupInfo
from trimtab.planner.snapshot.columns import Bool, Snapshot, UInt8
from trimtab.planner.snapshot.references import take_or
from trimtab.v1 import reason_pb2
from trimtab.v1.plan_pb2 import Consolidation

Reason = reason_pb2.UnremovableReason


class NodeFindings(NamedTuple):
    """Findings about nodes before eligibility; every array has length N. recent : bool, failed a simulation that is
    still valid; leaving : bool, being deleted; blocked : bool, some pod of it blocks the drain; cooling : bool, its
    group is in cool-down; promised : bool, scale-up has pending pods there; ready : bool, see `facts.nodes`; filled :
    bool, the plan has it already, and evicted pods may have filled it: the utilization threshold does not apply;
    has_pods : bool, pods have to move; closed : bool, a budget lets no such node go.
    """

    recent: Bool
    leaving: Bool
    blocked: Bool
    cooling: Bool
    promised: Bool
    ready: Bool
    filled: Bool
    utilization: Utilization
    spare: Spare
    has_pods: Bool
    closed: Bool


def reasons(snapshot: Snapshot, settings: ScaleDownSettings, findings: NodeFindings) -> UInt8:
    """Return by node why it is not eligible, an `UnremovableReason.Code`; 0 = eligible. uint8[N]; O(N)."""
    result = np.zeros(len(snapshot.nodes.name), np.uint8)
    for mask, reason in _checks(snapshot, settings, findings):
        np.copyto(result, np.uint8(reason), where=mask & (result == 0))
    return result


def _checks(snapshot: Snapshot, settings: ScaleDownSettings, findings: NodeFindings) -> Iterator[tuple[Bool, int]]:
    nodes = snapshot.nodes
    yield findings.recent, Reason.RECENTLY_UNREMOVABLE
    yield findings.leaving, Reason.CURRENTLY_BEING_DELETED
    yield nodes.scale_down_disabled, Reason.SCALE_DOWN_DISABLED_ANNOTATION
    yield nodes.do_not_disrupt, Reason.DO_NOT_DISRUPT_ANNOTATION
    yield nodes.group < 0, Reason.NOT_AUTOSCALED
    yield findings.cooling, Reason.IN_COOLDOWN
    yield np.isnan(findings.utilization.share), Reason.UNEXPECTED_ERROR
    if not settings.unready_enabled:
        yield ~findings.ready | findings.utilization.awaits_gpu, Reason.SCALE_DOWN_UNREADY_DISABLED
    consolidation = consolidation_of_nodes(snapshot, settings)
    yield consolidation == Consolidation.NEVER, Reason.NOT_CONSOLIDATED
    yield (consolidation == Consolidation.WHEN_EMPTY) & findings.has_pods, Reason.NOT_EMPTY
    yield findings.closed, Reason.DISRUPTION_BUDGET
    yield is_used(snapshot, settings, findings.utilization) & ~findings.filled, Reason.NOT_UNDERUTILIZED
    spare = findings.spare
    yield spare.group_left[spare.group] <= 0, Reason.NODE_GROUP_MIN_SIZE_REACHED
    too_much: Bool = np.any((spare.amount > 0) & (spare.amount > spare.amount_left), axis=1)
    yield too_much, Reason.MINIMAL_RESOURCE_LIMIT_EXCEEDED
    yield findings.blocked, Reason.BLOCKED_BY_POD
    yield findings.promised, Reason.RESERVED_FOR_PENDING_PODS


def is_used(snapshot: Snapshot, settings: ScaleDownSettings, utilization: Utilization) -> Bool:
    """Return for each node whether its utilization is above the threshold. bool[N]."""
    used: Bool = utilization.share > _thresholds(snapshot, settings, utilization.gpu)
    return used


def _thresholds(
    snapshot: Snapshot, settings: ScaleDownSettings, gpu: Bool
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the threshold that applies to each node. float64[N]."""
    of_groups = [settings.of_group(group.id) for group in snapshot.groups]
    rows = [(one.utilization_threshold, one.gpu_utilization_threshold) for one in [*of_groups, settings.general]]
    by_node = np.array(rows)[snapshot.nodes.group]
    return np.where(gpu, by_node[:, 1], by_node[:, 0])


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
