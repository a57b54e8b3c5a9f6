"""Which pending pods need a place, and for which of them nodes may be added.

A pending pod is on no node, has not ended and is not terminating. It does not matter whether the scheduler has tried it
already: a pod that fits somewhere is placed there, and no node is added for it. A pod that is too young, one beyond its
gang's minimum if settings say so, and a DaemonSet pod take room if there is any, but no node is added for them: the
first may be served next time, the last belongs to a node. All other pods that are not served take no room. Cost: O(P +
specs), vectorised.
Source: Cluster Autoscaler, filterOutYoungPods, core/podlistprocessor (filter_out_expendable, filter_out_daemon_sets).
Upstream serves pods of every scheduler, but only those marked unschedulable.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.model.settings import SECOND_NS, PlannerSettings, ScaleUpSettings
from trimtab.planner.model.values import PodRequirements
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_GATED, NO_NODE, Bool, Int32, Int64, Snapshot, UInt8
from trimtab.v1 import reason_pb2

Reason = reason_pb2.SkippedPodReason
_DEFAULT_SCHEDULERS: Final = ("", "default-scheduler")
_LONGEST_S: Final = 2**33
"""A delay beyond the time of any request, whose nanoseconds still fit an integer."""


class Pending(NamedTuple):
    """Pending pods, in order of name.

    pods : int32[W] those that need a place; may_add : bool[W] whether nodes may be added for them; skipped : int32[K]
    those that are not served, skipped_reason : uint8[K] `SkippedPodReason.Code`. A pod that is too young, or beyond its
    gang's minimum, is in both lists: it counts as skipped only if it finds no place.
    """

    pods: Int32
    may_add: Bool
    skipped: Int32
    skipped_reason: UInt8


class PodsInGangs(NamedTuple):
    """held : int32 pods that the scheduler holds with their gangs; rejected : int32 pods of gangs that cannot be whole,
    which count neither as pending nor as skipped; optional : int32 pods beyond the minimum of their gangs, which runs,
    for which no node is added."""

    held: Int32
    rejected: Int32
    optional: Int32


NO_GANGS: Final = PodsInGangs(*np.zeros((3, 0), np.int32))


def pending_pods(
    snapshot: Snapshot,
    settings: ScaleUpSettings,
    general: PlannerSettings,
    now_ns: int,
    requested: Bool | None = None,
    gangs: PodsInGangs = NO_GANGS,
) -> Pending:
    """Return the pending pods. requested : bool[P] those that wait for room of a ProvisioningRequest, None = none;
    gangs : those that wait with their gangs."""
    pods = snapshot.pods
    waits = np.flatnonzero((pods.node == NO_NODE) & (pods.deletion_s == 0) & ~pods.is_terminal())
    if len(gangs.rejected):
        waits = waits[~np.isin(waits, gangs.rejected)]
    reason = _reasons(snapshot, settings, general, waits, now_ns)
    if len(gangs.held):
        reason[np.isin(waits, gangs.held) & (reason != Reason.SCHEDULING_GATED)] = Reason.HELD_WITH_GANG
    if len(gangs.optional):
        reason[np.isin(waits, gangs.optional) & (reason == 0)] = Reason.BEYOND_GANG_MINIMUM
    if requested is not None:
        reason[requested[waits]] = Reason.CAPACITY_REQUESTED
    is_daemon = (pods.flags[waits] & FLAG_DAEMON) != 0
    adds_no_node = (reason == Reason.TOO_YOUNG) | (reason == Reason.BEYOND_GANG_MINIMUM)
    needs_place = (reason == 0) | adds_no_node
    skipped = (reason != 0) & ~is_daemon
    return Pending(
        pods=waits[needs_place].astype(np.int32),
        may_add=(~is_daemon & ~adds_no_node)[needs_place],
        skipped=waits[skipped].astype(np.int32),
        skipped_reason=reason[skipped],
    )


def _reasons(
    snapshot: Snapshot, settings: ScaleUpSettings, general: PlannerSettings, rows: Int64, now_ns: int
) -> UInt8:
    """Return by pod why it is not served, 0 = it is. uint8[rows]. Reasons that depend on time come last."""
    pods = snapshot.pods
    spec = pods.spec[rows]
    by_spec, delay_s = np.zeros(len(snapshot.specs), np.uint8), np.zeros(len(snapshot.specs), np.int64)
    is_used = np.zeros(len(snapshot.specs), bool)
    is_used[spec] = True
    for at in np.flatnonzero(is_used).tolist():
        by_spec[at] = _spec_reason(snapshot.specs[at], settings, general)
        delay_s[at] = max(snapshot.specs[at].scale_up_delay_s, 0)
    reason = by_spec[spec]
    wait_ns = np.maximum(np.minimum(delay_s[spec], _LONGEST_S) * SECOND_NS, settings.new_pod_delay_ns)
    # A pod of unknown age counts as old.
    is_young = (now_ns - pods.created_s[rows] * SECOND_NS < wait_ns) & (pods.created_s[rows] > 0)
    reason[is_young & (reason == 0)] = Reason.TOO_YOUNG
    reason[(pods.flags[rows] & FLAG_GATED) != 0] = Reason.SCHEDULING_GATED
    return reason


def _spec_reason(spec: PodRequirements, settings: ScaleUpSettings, general: PlannerSettings) -> int:
    if spec.scheduler_name not in _DEFAULT_SCHEDULERS and spec.scheduler_name not in settings.scheduler_names:
        return Reason.OTHER_SCHEDULER
    if spec.priority < general.expendable_priority:
        return Reason.EXPENDABLE
    if spec.unsupported:
        return Reason.UNSUPPORTED_CONSTRAINT
    return 0
