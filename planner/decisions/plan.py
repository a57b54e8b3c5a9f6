"""Plan: the decisions asked for, in one answer.

Decides which settings, state and simulation each decision gets; never what a decision says. Raises SettingsError for
settings that cannot be meant; the request is checked before (`planner.decisions.requests`).
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1 import snapshot_pb2

from planner.decisions.simulations import simulate
from planner.decisions.work import Work
from planner.model.settings import resolve_scale_down
from planner.scale_down.loop import decide
from planner.scale_down.result import ScaleDownRequest
from planner.simulation.build import Simulation
from planner.simulation.injected_pods import InjectedPod
from planner.snapshot.columns import FLAG_OTHER_KIND, Snapshot

_TERMINAL: Final = (snapshot_pb2.PodPhase.SUCCEEDED, snapshot_pb2.PodPhase.FAILED)


def plan(snapshot: Snapshot, request: pb.PlanRequest, state: pb.PlanState | None, work: Work) -> pb.PlanResponse:
    """Take the decisions. `state` : that of the last answer, None = first loop.

    Without SCALE_DOWN the state is handed back as it came. `request_id`, `state_version` and the stages of the
    diagnostics are the caller's to fill in.
    """
    settings = resolve_scale_down(request.settings)
    answer = pb.PlanResponse(snapshot_version=snapshot.version)
    _describe(snapshot, work.derive("counts", partial(_count, snapshot)), answer.diagnostics)
    answer.diagnostics.notes.extend(_notes(snapshot, request))
    if pb.Decision.SCALE_DOWN not in request.decisions:
        answer.state.CopyFrom(state or pb.PlanState())
        return answer

    def simulation(injected: tuple[InjectedPod, ...]) -> Simulation:
        with work.stage("classes"):
            built = simulate(snapshot, request, work.derive, injected)
        answer.diagnostics.pod_class_count = built.pods.size
        answer.diagnostics.node_class_count = len(built.nodes.taint_set)
        return built

    now_ns = request.now.seconds * 1_000_000_000 + request.now.nanos
    with work.stage("simulate"):
        result = decide(ScaleDownRequest(snapshot, simulation, settings, state, now_ns, work.time_left, work.derive))
    answer.scale_down.CopyFrom(result.decision)
    answer.state.CopyFrom(result.state)
    answer.diagnostics.notes.extend(result.notes)
    return answer


class _Counts(NamedTuple):
    """Pods that take part, those of them that cannot be decided, those on nodes that the snapshot lacks."""

    pods: int
    unsupported: int
    orphaned: int


def _count(snapshot: Snapshot) -> _Counts:
    pods = snapshot.pods
    takes_part = ~np.isin(pods.phase, _TERMINAL)
    unsupported = np.array([bool(spec.unsupported) for spec in snapshot.specs], np.bool_)
    return _Counts(
        int(takes_part.sum()),
        int((unsupported[pods.spec] & takes_part).sum()) if len(unsupported) else 0,
        int(takes_part[snapshot.dangling.node.row].sum()),
    )


def _describe(snapshot: Snapshot, counts: _Counts, diagnostics: pb.Diagnostics) -> None:
    """Say what the snapshot has."""
    diagnostics.node_count = len(snapshot.nodes.name)
    diagnostics.pod_count = counts.pods
    diagnostics.unsupported_pod_count = counts.unsupported
    diagnostics.orphaned_pod_count = counts.orphaned


def _notes(snapshot: Snapshot, request: pb.PlanRequest) -> Iterable[str]:
    """Say which settings have no effect."""
    groups = {group.id for group in snapshot.groups}
    for name in sorted(request.settings.node_groups):
        if name not in groups:
            yield f"settings.node_groups[{name!r}] has no effect: the snapshot has no such node group"
    for field in ("scale_up", "slack", "pod_costs"):
        if request.settings.HasField(field):
            yield f"settings.{field} has no effect: this build does not take that decision"
    missing = sorted(snapshot.dangling.group.names)
    if missing:
        yield f"nodes name node groups that the snapshot lacks, and are not autoscaled: {', '.join(missing[:5])}"
    flags = snapshot.pods.flags[snapshot.dangling.owner.row]
    controlled = int(np.count_nonzero((flags & FLAG_OTHER_KIND) == 0))
    if controlled and not snapshot.owners:
        yield (
            f"{controlled} pods name a controller, and the snapshot lists none: all count as not found and hold their "
            "nodes; list the controllers as owners"
        )
