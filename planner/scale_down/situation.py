"""What one loop starts from: pods judged, nodes measured, memory recalled. Nothing is moved yet.

Symbols: P pods of the snapshot, P' with the injected ones behind them, N nodes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from trimtab.v1 import snapshot_pb2

from planner.model.settings import ScaleDownSettings
from planner.model.values import RecentEviction
from planner.scale_down import drainability, pdb
from planner.scale_down.deletions import being_deleted
from planner.scale_down.drainability import long_terminating, outcome, pod_columns
from planner.scale_down.drainability.pod_columns import PodDrainColumns
from planner.scale_down.evictions import awaited
from planner.scale_down.kernels.grouping import group_by_node
from planner.scale_down.kernels.hints import digest_texts
from planner.scale_down.minimums import Spare, spare
from planner.scale_down.orders import eviction_costs
from planner.scale_down.pdb import BudgetMembership
from planner.scale_down.result import ScaleDownRequest
from planner.scale_down.state import Memory, PodGroups, recall
from planner.scale_down.utilization import Float64, Utilization, measure
from planner.snapshot.columns import FLAG_GATED, NO_NODE, Bool, Int32, Int64, Snapshot, UInt8


class Situation(NamedTuple):
    """All that is known before anything is moved.

    evictions : pods to inject; groups : pods by node; leaving : bool[N], being deleted; columns, codes : what rules
    see and, budgets aside, say of the pods, uint8[P]; needs_place : bool[P], has to go somewhere when its node goes;
    under : budgets of the pods, of P' pods; remaining : int64[B]; eviction_cost : float64[N]; pending : int32 pods to
    keep room for.
    """

    request: ScaleDownRequest
    evictions: tuple[RecentEviction, ...]
    groups: PodGroups
    memory: Memory
    notes: tuple[str, ...]
    leaving: Bool
    columns: PodDrainColumns
    codes: UInt8
    needs_place: Bool
    under: BudgetMembership
    remaining: Int64
    utilization: Utilization
    eviction_cost: Float64
    spare: Spare
    pending: Int32


def survey(request: ScaleDownRequest) -> Situation:
    """Look at everything once. O(P + N·R + labels of budgets), vectorised."""
    snapshot, settings, now_ns = request.snapshot, request.settings, request.now_ns
    evictions = awaited(snapshot, now_ns, settings.recent_eviction_ttl_ns)
    groups = _groups(snapshot, evictions)
    memory, notes = recall(request.state, snapshot.nodes.name, groups)
    leaving = being_deleted(snapshot, now_ns)
    under = pdb.membership(snapshot)
    unsupported = np.array([bool(spec.unsupported) for spec in snapshot.specs], bool)
    columns = pod_columns.derive(snapshot, settings, now_ns, pdb.budgeted(under), unsupported)
    expendable = _expendable(snapshot, settings)
    codes = drainability.judge(columns)
    codes[expendable] = outcome.SKIP
    ended = _ended(snapshot)
    needs_place = _needs_place(snapshot, columns, codes) & ~ended
    return Situation(
        request=request,
        evictions=evictions,
        groups=groups,
        memory=memory,
        notes=notes,
        leaving=leaving,
        columns=columns,
        codes=codes,
        needs_place=needs_place,
        under=_widened(under, len(evictions)),
        remaining=pdb.remaining_disruptions(snapshot.budgets),
        utilization=measure(snapshot, settings, expendable | ended | long_terminating.is_long_terminating(columns)),
        eviction_cost=eviction_costs(snapshot, needs_place),
        spare=spare(snapshot, settings, leaving),
        pending=_pending(snapshot, settings, ended),
    )


def _groups(snapshot: Snapshot, evictions: Sequence[RecentEviction]) -> PodGroups:
    pods = snapshot.pods
    known = len(pods.spec)
    node = np.concatenate([pods.node, np.full(len(evictions), NO_NODE, np.int32)])
    offsets = np.zeros(len(snapshot.nodes.name) + 2, np.int64)
    members = np.empty(len(node), np.int32)
    group_by_node(node, offsets, members)
    digests = np.empty(len(node), np.int32)
    with np.errstate(over="ignore"):  # the hash wraps around; run as plain Python, numpy would warn of it
        digest_texts(pods.uid.data, pods.uid.offsets, digests[:known])
        uids = [eviction.uid.encode() for eviction in evictions]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array([len(uid) for uid in uids], np.int64))])
        digest_texts(np.frombuffer(b"".join(uids), np.uint8).copy(), ends, digests[known:])
    return PodGroups(offsets, members, digests)


def _expendable(snapshot: Snapshot, settings: ScaleDownSettings) -> Bool:
    """Say for each pod whether its priority makes it of no account. bool[P]."""
    by_spec = np.array([spec.priority < settings.expendable_priority for spec in snapshot.specs], bool)
    expendable: Bool = by_spec[snapshot.pods.spec]
    return expendable


def _ended(snapshot: Snapshot) -> Bool:
    phase = snapshot.pods.phase
    ended: Bool = (phase == snapshot_pb2.PodPhase.SUCCEEDED) | (phase == snapshot_pb2.PodPhase.FAILED)
    return ended


def _needs_place(snapshot: Snapshot, columns: PodDrainColumns, codes: UInt8) -> Bool:
    """Say for each pod whether it is on a node and has to be placed elsewhere when that node goes. bool[P].

    A pod that blocks would have to be placed too, were its node being deleted all the same.
    """
    stays_behind = (codes == outcome.SKIP) | columns.daemon | columns.mirror
    needs: Bool = ~stays_behind & (snapshot.pods.node >= 0)
    return needs


def _widened(under: BudgetMembership, more: int) -> BudgetMembership:
    """Give injected pods, which are under no budget any more, their empty rows."""
    return under._replace(offsets=np.append(under.offsets, np.full(more, under.offsets[-1])))


def _pending(snapshot: Snapshot, settings: ScaleDownSettings, ended: Bool) -> Int32:
    """Return the pods that wait for a node and may be given one, in order of name. int32."""
    if not settings.reserve_for_pending:
        return np.zeros(0, np.int32)
    pods = snapshot.pods
    waiting = (pods.node == NO_NODE) & ~ended & (pods.deletion_s == 0) & ((pods.flags & FLAG_GATED) == 0)
    return np.flatnonzero(waiting).astype(np.int32)
