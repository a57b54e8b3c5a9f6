"""What a plan does for each gang, and why pods stay pending with theirs: for programs and, in sentences, for people."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from trimtab.planner.facts.gangs import MISSING_UID, Gang, Reason
from trimtab.planner.scale_up.gang_outcome import GangOutcome, Rejection
from trimtab.planner.scale_up.plan import ScaleUpPlan
from trimtab.planner.snapshot.columns import NO_NODE, Bool, Snapshot
from trimtab.v1 import plan_pb2 as pb
from trimtab.words import counted

NO_GANGS: Final[Mapping[int, str]] = MappingProxyType({})
_NO_REJECTION: Final = Rejection(-1, Reason.UNSPECIFIED)


def add_gangs(decision: pb.ScaleUpDecision, plan: ScaleUpPlan) -> None:
    """Add an entry for each gang with pending pods. To be called while the simulation contains the plan's moves."""
    if plan.gangs is not None:
        rows = enumerate(plan.gangs.gangs)
        decision.gangs.extend(_result(plan, plan.gangs, at, gang) for at, gang in rows if not gang.is_room)


def gang_notes(decision: pb.ScaleUpDecision) -> Iterator[str]:
    """Yield a note for each pod group that is missing or cannot be read."""
    for one in decision.gangs:
        if one.reason in (Reason.POD_GROUP_MISSING, Reason.POD_GROUP_INVALID):
            yield f"pod group {one.group}: {one.detail}"


def gangs_of_pods(outcome: GangOutcome) -> dict[int, str]:
    """Return why the gang of each pod or placeholder without a place has none; nothing for those of gangs that have."""
    found: dict[int, str] = {}
    for at, rejection in outcome.rejections.items():
        gang = outcome.gangs[at]
        name = gang.name if gang.is_room else gang.key
        found |= dict.fromkeys(gang.pending.tolist(), f"its gang {name} waits: {rejection.detail}")
    return found


def _result(plan: ScaleUpPlan, outcome: GangOutcome, at: int, gang: Gang) -> pb.GangResult:
    state, count = plan.progress.state, len(gang.pending)
    request = plan.context.request
    ahead = request.round.settings.gangs.count_missing
    is_missing = _missing(request.snapshot, gang) if ahead else np.zeros(count, bool)
    result = pb.GangResult(
        group=gang.key,
        min_count=gang.min_count,
        existing_count=gang.existing_count - int(is_missing.sum()),
        bound_count=len(gang.bound),
    )
    if gang.held:
        result.reason, result.detail = gang.held, _held(gang, result.existing_count)  # type: ignore[assignment]
        return result
    on = state.pod_node[gang.pending]
    result.ahead_count = int((is_missing & (on != NO_NODE)).sum())
    on = on[on != NO_NODE]
    result.placed_count = len(on) - result.ahead_count
    result.on_new_nodes_count = int(np.isin(on, plan.progress.opened).sum())
    rejection = outcome.rejections.get(at, _NO_REJECTION)
    result.reason, result.detail = rejection.reason, rejection.detail
    result.lacking_count = rejection.lacking
    result.node_groups.extend(rejection.node_groups)
    result.domain = outcome.domains[at]
    if not rejection.reason and len(on) < count:
        result.detail = f"{counted(count - len(on), 'pod')} beyond its minimum without a place"
    return result


def _missing(snapshot: Snapshot, gang: Gang) -> Bool:
    """Return which pending pods of a gang do not exist yet. bool[pending]."""
    uid = snapshot.pods.uid
    found = [uid.get(pod).startswith(MISSING_UID) for pod in gang.pending.tolist()]
    return np.array(found, bool)


def _held(gang: Gang, existing_count: int) -> str:
    """Return why the scheduler holds the pods of a gang. existing_count : of its pods."""
    waiting = existing_count - len(gang.bound)
    pods = f"its {waiting} pods wait" if waiting > 1 else "its pod waits"
    if gang.group is None:
        return (
            f"PodGroup/{gang.key}, which spec.schedulingGroup.podGroupName names, does not exist: {pods} until it does"
        )
    if gang.group.problem:
        return f"{gang.group.object}: {gang.group.problem}: {pods}"
    if gang.held == Reason.SEVERAL_PRIORITIES:
        others = " and ".join(map(str, gang.other_priorities))
        return (
            f"{gang.group.object} has priority {gang.priority}, and some of its pods have {others}: none is scheduled"
        )
    if gang.held == Reason.SEVERAL_SCHEDULERS:
        return f"its pods name several schedulers ({', '.join(gang.schedulers)}): none takes them"
    if gang.held == Reason.MEMBER_GATED:
        return f"{gang.group.object}: a pod of it has scheduling gates: {pods} until it has none"
    lacking = gang.group.min_count - existing_count
    exist = "exists" if existing_count == 1 else "exist"
    return (
        f"{gang.group.object} has minCount {gang.group.min_count}, and {existing_count} of its pods {exist}: "
        f"{pods} for {lacking} more"
    )
