"""The result of a loop, cached with its snapshot for later loops with the same result. A loop over the same snapshot
with the same state and settings has the same result as long as the time makes no difference: pods have the same
drainability, and the same nodes are being deleted, wait for a cool-down, or failed a simulation too recently. Then only
values that depend on the time itself are recomputed: since when, how much longer, what goes now. Rounds in which
another decision came before, or in which recently evicted pods or placeholders need room, are not cached. Decides
nothing; answers are the same as without the cache.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from trimtab.planner.drainability import rules
from trimtab.planner.drainability.pod_columns import PodDrainColumns, drain_columns, of_rows
from trimtab.planner.facts.node_limits import holds
from trimtab.planner.model.settings import SECOND_NS, PlannerSettings, ScaleDownSettings
from trimtab.planner.placement.state_columns import UnreadableStateError, column
from trimtab.planner.scale_down.context import ScaleDownContext, ScaleDownRequest, at_time
from trimtab.planner.scale_down.eligibility import cooldown
from trimtab.planner.scale_down.result import LoopResult
from trimtab.planner.scale_down.state import is_past, is_recent
from trimtab.planner.simulation.virtual_rows import NOTHING_VIRTUAL
from trimtab.planner.snapshot.caches import UNCACHED, LatestKey, SnapshotKey


@dataclass(frozen=True)
class PlanKey(LatestKey["_CachedPlan"]):
    """The inputs of a plan besides the snapshot. state : its digest; times : everything that depends on time, each as
    a column with a length given by snapshot and state."""

    settings: ScaleDownSettings
    general: PlannerSettings
    state: bytes
    times: bytes


class _CachedPlan(NamedTuple):
    """context : fields of the `ScaleDownContext` behind its request."""

    context: tuple[Any, ...]
    found: LoopResult


class ChangingPodsKey(SnapshotKey[PodDrainColumns]):
    """The pods that time makes a difference to."""


def key_of(request: ScaleDownRequest) -> PlanKey | None:
    """Return the key of the requested plan; None if it has other inputs, too. O(N + bytes of the state + pods whose
    drainability depends on time)."""
    this = request.round
    if this.work.cache is UNCACHED or this.decided or this.evictions or this.placeholders:
        return None
    simulation = this.simulation
    if simulation.virtual != NOTHING_VIRTUAL or simulation.settings.depends_on_time:
        return None
    failed = _recently_failed(request)
    if failed is None:
        return None
    state = b"" if request.state is None else sha256(request.state.SerializeToString(deterministic=True)).digest()
    waits = cooldown(request.snapshot.groups, request.settings, request.now_ns).groups
    times = (
        this.leaving.tobytes(),
        bytes(map(bool, waits)),
        bytes(holds(budget, request.now_ns) for budget in this.settings.disruption_budgets),
        failed,
        _judged(request),
    )
    return PlanKey(request.settings, this.settings, state, b"".join(times))


def _recently_failed(request: ScaleDownRequest) -> bytes | None:
    """Return which failed simulations of the state are still valid; None if one of its times is not in the past and
    therefore counts as now."""
    if request.state is None:
        return b""
    try:
        times = [
            column(part.time_ns, np.int64, "time_ns")
            for part in (request.state.unremovable, request.state.unneeded, request.state.later_waves)
        ]
    except UnreadableStateError:
        return None
    if not all(is_past(one, request.now_ns).all() for one in times):
        return None
    return is_recent(times[0], request.now_ns, request.settings).tobytes()


def _judged(request: ScaleDownRequest) -> bytes:
    """Return the drainability of pods that depends on time."""
    some = request.cache.get(
        ChangingPodsKey(),
        request.snapshot,
        lambda view: _changing(drain_columns(view, request.cache, request.limits)),
    )
    now = some._replace(settings=request.settings, now_s=request.now_ns // SECOND_NS)
    return rules.judge(now).tobytes() + rules.is_long_terminating(now).tobytes()


def _changing(pods: PodDrainColumns) -> PodDrainColumns:
    """Return the columns of the pods whose drainability depends on their age or on the time since their
    deletion. O(P).
    """
    rows = np.flatnonzero(pods.system | (pods.deletion_s > 0) | (pods.undisrupted_until_s > 0))
    return of_rows(pods, rows)


def cached_plan(request: ScaleDownRequest, key: PlanKey) -> tuple[ScaleDownContext, LoopResult] | None:
    """Return the cached result of a loop with this key, in the context of the request; None if there is none."""
    cached = request.round.work.cache.find(key)
    if cached is None:
        return None
    return at_time(ScaleDownContext._make((request, *cached.context)), request), cached.found


def cache_plan(key: PlanKey, context: ScaleDownContext, found: LoopResult) -> None:
    """Cache the result of a loop."""
    context.request.round.work.cache.put(key, _CachedPlan(tuple(context)[1:], found))
