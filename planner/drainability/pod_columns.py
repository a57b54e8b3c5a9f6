"""The columns that the rules read, derived once per snapshot. No rule reads specs or owners row by row. P pods, S
specs, R resources, N nodes. Cost: O(P + S · requests), vectorised over pods.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts import pdb
from trimtab.planner.facts.nodes import (
    NO_POOL,
    NodeUse,
    eviction_ratings,
    node_use,
    of_nodes,
    pools_of_nodes,
    undisrupted_until_s,
)
from trimtab.planner.facts.pdb import BudgetMembership, Exhausted, gang_budgets, with_gangs
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.settings import SECOND_NS, ScaleDownSettings
from trimtab.planner.snapshot.caches import SnapshotCache, SnapshotKey
from trimtab.planner.snapshot.checks import MAX_TIME_S
from trimtab.planner.snapshot.columns import (
    FLAG_DAEMON,
    FLAG_MIRROR,
    FLAG_OTHER_KIND,
    FLAG_OTHER_STATEFUL_SET,
    Bool,
    Float64,
    Int64,
    Snapshot,
    UInt8,
)
from trimtab.planner.snapshot.references import take_or
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1 import snapshot_pb2 as pb

NO_CONTROLLER, UNKNOWN_CONTROLLER, OTHER_KIND = 0, 1, 2
REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET, JOB, DAEMON_SET = 3, 4, 5, 6, 7
"""Codes of the column `owner_kind`. Unknown: the pod names a controller of a known kind that the snapshot lacks."""

SYSTEM_NAMESPACE: Final = "kube-system"
_KINDS: Final = {
    "ReplicationController": REPLICATION_CONTROLLER,
    "ReplicaSet": REPLICA_SET,
    "StatefulSet": STATEFUL_SET,
    "Job": JOB,
    "DaemonSet": DAEMON_SET,
}
"""Kinds recognized by name, regardless of group and version, as in upstream's rules."""


class PodDrainColumns(NamedTuple):
    """The pods as the rules see them; every array has length P.

    now_s : Unix seconds; phase, restart_policy, safe_to_evict, owner_kind : uint8; mirror, daemon, local_storage,
    system, budgeted, several_budgets (always refused by the eviction API), budget_exhausted, gang_exhausted (fewer than
    its minimum would run), unsupported, job_unmovable : bool; created_s, deletion_s, grace_s, desired_replicas (-1 =
    unknown), undisrupted_until_s (0 = the pod may be disrupted) : int64.
    """

    settings: ScaleDownSettings
    now_s: int
    phase: UInt8
    restart_policy: UInt8
    safe_to_evict: UInt8
    owner_kind: UInt8
    mirror: Bool
    daemon: Bool
    local_storage: Bool
    system: Bool
    budgeted: Bool
    several_budgets: Bool
    budget_exhausted: Bool
    gang_exhausted: Bool
    unsupported: Bool
    job_unmovable: Bool
    created_s: Int64
    deletion_s: Int64
    grace_s: Int64
    desired_replicas: Int64
    undisrupted_until_s: Int64

    def with_exhausted(self, exhausted: Exhausted) -> "PodDrainColumns":
        """Return the columns with the budgets that are used up. exhausted : of these pods, and maybe of virtual ones
        after them."""
        pod_count = len(self.budgeted)
        return self._replace(
            budget_exhausted=exhausted.by_budgets[:pod_count], gang_exhausted=exhausted.by_gangs[:pod_count]
        )


def of_snapshot(snapshot: Snapshot, under: BudgetMembership) -> PodDrainColumns:
    """Gather the columns that depend on the snapshot only, to be completed by `at`. O(P + S).

    `budget_exhausted` and `gang_exhausted` are all false: which budgets are used up is known only later.
    """
    pods = snapshot.pods
    specs, until = snapshot.specs, undisrupted_until_s(snapshot)
    if until.any():
        # Elsewhere than on nodes of Karpenter the annotation has no effect. Nodes of pods are read only where some pod
        # has it: else a pod that moves would have all columns made again.
        until = np.where(take_or(pools_of_nodes(snapshot) != NO_POOL, pods.node, False), until, 0)
    # The two negative owner indices, UNKNOWN_OWNER (-2) and NO_OWNER (-1), select the two entries that are appended.
    kinds = [_KINDS.get(owner.kind, OTHER_KIND) for owner in snapshot.owners]
    kind_of = np.array([*kinds, UNKNOWN_CONTROLLER, NO_CONTROLLER], np.uint8)[pods.owner]
    desired = np.array([*(owner.desired_replicas for owner in snapshot.owners), -1, -1], np.int64)
    other = (pods.flags & FLAG_OTHER_KIND) != 0
    owner_kind = np.where(other & (kind_of == UNKNOWN_CONTROLLER), OTHER_KIND, kind_of)
    owner_kind[(pods.flags & FLAG_OTHER_STATEFUL_SET) != 0] = STATEFUL_SET
    return PodDrainColumns(
        settings=ScaleDownSettings(),
        now_s=0,
        budgeted=pdb.budgeted(under),
        several_budgets=pdb.never_evicted(snapshot, under),
        budget_exhausted=np.zeros(len(pods.spec), bool),
        gang_exhausted=np.zeros(len(pods.spec), bool),
        job_unmovable=np.zeros(len(pods.spec), bool),
        phase=pods.phase,
        restart_policy=np.array([spec.restart_policy for spec in specs], np.uint8)[pods.spec],
        safe_to_evict=np.array([spec.safe_to_evict for spec in specs], np.uint8)[pods.spec],
        owner_kind=owner_kind,
        mirror=(pods.flags & FLAG_MIRROR) != 0,
        daemon=(pods.flags & FLAG_DAEMON) != 0,
        local_storage=np.array([spec.local_storage for spec in specs], bool)[pods.spec],
        # A namespace that is not among the strings has index -1, which no pod has.
        system=pods.namespace == string_index(snapshot.strings, SYSTEM_NAMESPACE),
        unsupported=np.array([bool(spec.unsupported) for spec in specs], bool)[pods.spec],
        created_s=pods.created_s,
        deletion_s=pods.deletion_s,
        grace_s=np.array([min(spec.termination_grace_period_s, MAX_TIME_S) for spec in specs], np.int64)[pods.spec],
        desired_replicas=desired[pods.owner],
        undisrupted_until_s=until,
    )


def at(snapshot: Snapshot, general: PodDrainColumns, settings: ScaleDownSettings, now_ns: int) -> PodDrainColumns:
    """Complete the columns with settings and time. O(P) if Jobs may have to stay."""
    usual = settings.general.job_pods_unmovable
    jobs_stay = of_nodes(snapshot, settings, lambda group: group.job_pods_unmovable)
    if not usual and not jobs_stay.any():
        return general._replace(settings=settings, now_s=now_ns // SECOND_NS)
    return general._replace(
        settings=settings,
        now_s=now_ns // SECOND_NS,
        job_unmovable=(general.owner_kind == JOB) & take_or(jobs_stay, snapshot.pods.node, usual),
    )


def of_rows(columns: PodDrainColumns, rows: Int64) -> PodDrainColumns:
    """Return the columns of some pods."""
    return PodDrainColumns._make(column[rows] if isinstance(column, np.ndarray) else column for column in columns)


def has_controller(columns: PodDrainColumns) -> Bool:
    """Return for each pod whether it names a controller, in the snapshot or not."""
    controlled: Bool = columns.owner_kind != NO_CONTROLLER
    return controlled


def is_terminal(columns: PodDrainColumns) -> Bool:
    """Return for each pod whether it has ended and will not restart. Source: Cluster Autoscaler,
    drain.IsPodTerminal.
    """
    never = columns.restart_policy == pb.RestartPolicy.NEVER
    on_failure = columns.restart_policy == pb.RestartPolicy.ON_FAILURE
    succeeded = columns.phase == pb.PodPhase.SUCCEEDED
    ended: Bool = (succeeded & (never | on_failure)) | (columns.phase == pb.PodPhase.FAILED)
    return ended


class DrainFacts(NamedTuple):
    """What follows from a snapshot for every decision that drains nodes."""

    under: BudgetMembership
    """Budgets by pod, those of gangs included."""
    pods: PodDrainColumns
    """The input of the rules, before settings and time."""
    priority: Int64
    """int64[S]"""
    rating: Float64
    """float64[P], of the eviction of each pod."""
    use: NodeUse

    def ignored(self, snapshot: Snapshot, expendable_priority: int) -> Bool:
        """Return the pods that no drain moves: expendable ones, and those in a terminal phase, which upstream does not
        even list. bool[P]."""
        ignored: Bool = (self.priority < expendable_priority)[snapshot.pods.spec] | snapshot.pods.is_terminal()
        return ignored


class MembershipKey(SnapshotKey[BudgetMembership]):
    """The budgets of pods."""


class DrainColumnsKey(SnapshotKey[PodDrainColumns]):
    """What rules see of pods."""


class RatingsKey(SnapshotKey[tuple[Int64, Float64]]):
    """Priorities of specs, and ratings of evictions."""


class NodeUseKey(SnapshotKey[NodeUse]):
    """Requests on nodes."""


def facts_of(snapshot: Snapshot, cache: SnapshotCache, limits: RequestLimits = UNLIMITED) -> DrainFacts:
    """Return the facts, each from the cache or computed."""

    def rated(view: Snapshot) -> tuple[Int64, Float64]:
        priority = np.array([spec.priority for spec in view.specs], np.int64)
        return priority, eviction_ratings(view, priority)

    priority, rating = cache.get(RatingsKey(), snapshot, rated)
    use = cache.get(NodeUseKey(), snapshot, lambda view: node_use(view, _requests(view, limits)))
    under = with_gangs(_membership(snapshot, cache, limits), snapshot, gang_budgets(snapshot, cache))
    columns = drain_columns(snapshot, cache, limits)
    return DrainFacts(under, columns, priority, rating, use)


def drain_columns(snapshot: Snapshot, cache: SnapshotCache, limits: RequestLimits = UNLIMITED) -> PodDrainColumns:
    """Return what rules see of pods, from the cache or computed."""

    def gather(view: Snapshot) -> PodDrainColumns:
        return of_snapshot(view, _membership(view, cache, limits))

    return cache.get(DrainColumnsKey(), snapshot, gather)


def _membership(snapshot: Snapshot, cache: SnapshotCache, limits: RequestLimits) -> BudgetMembership:
    return cache.get(MembershipKey(), snapshot, lambda view: pdb.membership(view, limits, cache))


def _requests(snapshot: Snapshot, limits: RequestLimits) -> Float64:
    """Return the request of each spec for each resource. float64[R, S], exact below 2^53."""
    row = {name: r for r, name in enumerate(snapshot.resources)}
    limits.reserve(3 * 8 * len(row) * len(snapshot.specs), "resources times pod specs")
    requests = np.zeros((len(row), len(snapshot.specs)))
    for column, spec in enumerate(snapshot.specs):
        for name, amount in spec.requests:
            if name in row:
                requests[row[name], column] = amount
    return requests
