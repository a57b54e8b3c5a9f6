"""The rules for moving a pod when its node is drained, in the order in which the Cluster Autoscaler evaluates them: the
first rule with an outcome decides.

Each rule takes the columns of all pods and returns an outcome for each, uint8[P]. Source: Cluster Autoscaler,
simulator/drainability/rules, Default; each rule names the package there. Rules without one are our own.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from trimtab.planner.drainability import outcome
from trimtab.planner.drainability.pod_columns import (
    JOB,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    UNKNOWN_CONTROLLER,
    PodDrainColumns,
    has_controller,
    is_terminal,
)
from trimtab.planner.model.settings import SECOND_NS
from trimtab.planner.snapshot.columns import Bool, UInt8
from trimtab.v1.reason_pb2 import BlockingPodReason
from trimtab.v1.snapshot_pb2 import SafeToEvict

LONG_TERMINATING_HEADROOM_S: Final = 30
"""Time granted beyond the pod's own grace period before its deletion counts as overdue."""


def do_not_disrupt(pods: PodDrainColumns) -> UInt8:
    """Block for a pod of Karpenter's that must not be disrupted. Source: Karpenter, utils/pod, IsDisruptable."""
    mask: Bool = pods.undisrupted_until_s > pods.now_s
    return outcome.where(mask, outcome.block(BlockingPodReason.DO_NOT_DISRUPT))


def mirror(pods: PodDrainColumns) -> UInt8:
    """Skip the mirror of a static pod: it goes with its kubelet. Source: mirror."""
    return outcome.where(pods.mirror, outcome.SKIP)


def long_terminating(pods: PodDrainColumns) -> UInt8:
    """Skip a pod whose deletion is long overdue. Source: longterminating."""
    return outcome.where(is_long_terminating(pods), outcome.SKIP)


def replica_count(pods: PodDrainColumns) -> UInt8:
    """Block if the controller is gone or has too few replicas, where pods of custom controllers block.

    Controllers of kinds that upstream does not list are left to the other rules, and so are DaemonSets: a snapshot
    often lacks them, and their pods stay behind anyway. Source: replicacount.
    """
    if not pods.settings.skip_custom_controllers:
        return _undefined(pods)
    missing = (pods.owner_kind == UNKNOWN_CONTROLLER) & ~pods.daemon
    codes = outcome.where(missing, outcome.block(BlockingPodReason.CONTROLLER_NOT_FOUND))
    counted = (pods.owner_kind == REPLICATION_CONTROLLER) | (pods.owner_kind == REPLICA_SET)
    too_few = counted & (pods.desired_replicas >= 0) & (pods.desired_replicas < pods.settings.min_replica_count)
    codes |= outcome.where(too_few, outcome.block(BlockingPodReason.MIN_REPLICAS_REACHED))
    return codes


def daemon_set(pods: PodDrainColumns) -> UInt8:
    """Let a DaemonSet pod go. Source: daemonset."""
    return outcome.where(pods.daemon, outcome.DRAIN_OK)


def safe_to_evict(pods: PodDrainColumns) -> UInt8:
    """Let a pod annotated safe-to-evict "true" go. Source: safetoevict."""
    return outcome.where(pods.safe_to_evict == SafeToEvict.TRUE, outcome.DRAIN_OK)


def terminal(pods: PodDrainColumns) -> UInt8:
    """Let a pod go that has ended and will not restart. Source: terminal."""
    return outcome.where(is_terminal(pods), outcome.DRAIN_OK)


def on_completion(pods: PodDrainColumns) -> UInt8:
    """Wait for a pod annotated safe-to-evict "on-completion". Source: oncompletion (1.36 and later)."""
    return outcome.where(pods.safe_to_evict == SafeToEvict.ON_COMPLETION, outcome.WAIT)


def job(pods: PodDrainColumns) -> UInt8:
    """Block for a pod of a Job, if the settings keep Jobs on their nodes.

    Upstream moves such pods; the Zalando fork keeps them. After the annotations, so a Job's author can override it.
    """
    return outcome.where(pods.job_unmovable, outcome.block(BlockingPodReason.JOB_POD_UNMOVABLE))


def replicated(pods: PodDrainColumns) -> UInt8:
    """Block for a pod that no controller would recreate.

    With `skip_custom_controllers` only the controllers that upstream knows count. If the snapshot lacks a controller,
    its kind is unknown; `replica_count` has handled it before, or custom controllers count anyway. Source: replicated.
    """
    kind = pods.owner_kind
    if pods.settings.skip_custom_controllers:
        recreated = (kind == REPLICATION_CONTROLLER) | (kind == REPLICA_SET) | (kind == STATEFUL_SET) | (kind == JOB)
    else:
        recreated = has_controller(pods)
    return outcome.where(~recreated, outcome.block(BlockingPodReason.NOT_REPLICATED))


def system(pods: PodDrainColumns) -> UInt8:
    """Block for a young kube-system pod without a budget, and let an old one go. Source: system."""
    if not pods.settings.skip_system_pods:
        return _undefined(pods)
    alone = pods.system & ~pods.budgeted
    # An unknown creation time (0) counts as long ago.
    old = (pods.now_s - pods.created_s) * SECOND_NS > pods.settings.system_pod_timeout_ns
    codes = outcome.where(alone & old, outcome.DRAIN_OK)
    codes |= outcome.where(alone & ~old, outcome.block(BlockingPodReason.UNMOVABLE_KUBE_SYSTEM_POD))
    return codes


def not_safe_to_evict(pods: PodDrainColumns) -> UInt8:
    """Block for a pod annotated safe-to-evict "false". Source: notsafetoevict."""
    code = outcome.block(BlockingPodReason.NOT_SAFE_TO_EVICT_ANNOTATION)
    return outcome.where(pods.safe_to_evict == SafeToEvict.FALSE, code)


def local_storage(pods: PodDrainColumns) -> UInt8:
    """Block for a pod that would lose local storage which no annotation declares expendable. Source: localstorage."""
    if not pods.settings.skip_local_storage:
        return _undefined(pods)
    return outcome.where(pods.local_storage, outcome.block(BlockingPodReason.LOCAL_STORAGE_REQUESTED))


def disruption_budget(pods: PodDrainColumns) -> UInt8:
    """Block for a pod whose budget allows no further disruption. Source: pdb."""
    return outcome.where(pods.budget_exhausted, outcome.block(BlockingPodReason.NOT_ENOUGH_PDB))


def several_budgets(pods: PodDrainColumns) -> UInt8:
    """Block for a pod with more than one disruption budget, because the eviction API always refuses it.

    DaemonSet and mirror pods are not evicted to make their node go. Source: Kubernetes, the eviction subresource, which
    answers 500 for more than one budget.
    """
    evicted = pods.several_budgets & ~pods.daemon & ~pods.mirror
    return outcome.where(evicted, outcome.block(BlockingPodReason.SEVERAL_BUDGETS))


def gang(pods: PodDrainColumns) -> UInt8:
    """Block for a pod without which fewer pods of its gang would run than its minimum; no rule upstream."""
    return outcome.where(pods.gang_exhausted, outcome.block(BlockingPodReason.GANG))


def unsupported(pods: PodDrainColumns) -> UInt8:
    """Block for a pod with a constraint that this build cannot decide: no place for it can be proven."""
    needs_place = pods.unsupported & ~pods.daemon & ~pods.mirror & ~is_terminal(pods)
    return outcome.where(needs_place, outcome.block(BlockingPodReason.UNSUPPORTED_CONSTRAINT))


RULES: Final[tuple[Callable[[PodDrainColumns], UInt8], ...]] = (
    do_not_disrupt,
    mirror,
    long_terminating,
    replica_count,
    daemon_set,
    safe_to_evict,
    terminal,
    on_completion,
    job,
    replicated,
    system,
    not_safe_to_evict,
    local_storage,
)
"""The rules that do not depend on how much of the budgets the loop has used up; `judge_budgets` applies the others."""


def judge(pods: PodDrainColumns) -> UInt8:
    """Return for each pod the outcome of the first rule that has one, without budgets. uint8[P]; O(rules · P)."""
    codes = _undefined(pods)
    for rule in RULES:
        outcome.put(codes, rule(pods), codes == outcome.UNDEFINED)
    return codes


def judge_counted(pods: PodDrainColumns, ignored: Bool) -> UInt8:
    """Return the same, with pods that no drain moves skipped, unless they must not be disrupted. ignored : bool[P]."""
    codes = judge(pods)
    codes[ignored & (codes != outcome.block(BlockingPodReason.DO_NOT_DISRUPT))] = outcome.SKIP
    return codes


def judge_budgets(pods: PodDrainColumns, codes: UInt8) -> UInt8:
    """Return the codes of `judge`, completed with the current budgets. uint8[P].

    `several_budgets`, `gang` and `unsupported` override every outcome by which a pod can be moved: no annotation
    changes them.
    """
    judged = codes.copy()
    _override(judged, several_budgets(pods))
    outcome.put(judged, disruption_budget(pods), judged == outcome.UNDEFINED)
    _override(judged, gang(pods))
    _override(judged, unsupported(pods))
    return judged


def every_reason(pods: PodDrainColumns) -> list[list[int]]:
    """Return for each pod the `BlockingPodReason.Code` of every rule that blocks it, in the order of the rules; rules
    after one that lets the pod go do not count. `budget_exhausted` is complete. O(rules · P).
    """
    reasons: list[list[int]] = [[] for _ in range(len(pods.phase))]
    undecided = np.ones(len(reasons), np.bool_)

    def add(codes: UInt8) -> None:
        for pod in np.flatnonzero(undecided & outcome.blocks(codes)).tolist():
            reasons[pod].append(outcome.blocking_reason(int(codes[pod])))

    for rule in RULES:
        codes = rule(pods)
        add(codes)
        undecided &= (codes == outcome.UNDEFINED) | outcome.blocks(codes)
    add(disruption_budget(pods))
    undecided[:] = True
    add(several_budgets(pods))
    add(gang(pods))
    add(unsupported(pods))
    return reasons


def is_long_terminating(pods: PodDrainColumns) -> Bool:
    """Return for each pod whether its deletion is overdue. bool[P]."""
    overdue = np.zeros(len(pods.deletion_s), np.bool_)
    rows = np.flatnonzero(pods.deletion_s > 0)
    overdue[rows] = pods.deletion_s[rows] + pods.grace_s[rows] + LONG_TERMINATING_HEADROOM_S < pods.now_s
    return overdue


def _undefined(pods: PodDrainColumns) -> UInt8:
    return np.zeros(len(pods.phase), np.uint8)


def _override(codes: UInt8, overriding: UInt8) -> None:
    """Overwrite, with the outcomes of a rule, those by which a pod can be moved, in place. uint8[P] each."""
    movable = (codes == outcome.UNDEFINED) | (codes == outcome.DRAIN_OK)
    outcome.put(codes, overriding, movable & (overriding != outcome.UNDEFINED))
