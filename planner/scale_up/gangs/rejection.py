"""Why a gang gets no places: the limit that keeps it from being whole, and one sentence for people."""

from collections import Counter
from typing import Final

import numpy as np

from trimtab.planner.facts.gangs import Gang, Reason
from trimtab.planner.new_nodes.sentences import OF_GROUP
from trimtab.planner.scale_up.gang_outcome import Rejection
from trimtab.planner.scale_up.progress import PlanInProgress
from trimtab.planner.scale_up.reasons import Refusals
from trimtab.planner.snapshot.columns import Bool, Int64
from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1.reason_pb2 import NodeGroupReason

_LIMITS: Final = {
    int(NodeGroupReason.MAX_SIZE_REACHED): (Reason.MAX_SIZE_REACHED, OF_GROUP[NodeGroupReason.MAX_SIZE_REACHED]),
    int(NodeGroupReason.RESOURCE_LIMIT_REACHED): (Reason.RESOURCE_LIMIT_REACHED, "at the limit on {resource}"),
    int(NodeGroupReason.MAX_NEW_NODES_REACHED): (
        Reason.MAX_NEW_NODES_REACHED,
        "not grown further, as the plan adds the maximum number of nodes",
    ),
    int(NodeGroupReason.BACKED_OFF): (Reason.BACKED_OFF, OF_GROUP[NodeGroupReason.BACKED_OFF]),
    int(NodeGroupReason.UNHEALTHY): (Reason.UNHEALTHY, OF_GROUP[NodeGroupReason.UNHEALTHY]),
    int(NodeGroupReason.NOT_WHOLE): (Reason.NOT_WHOLE, OF_GROUP[NodeGroupReason.NOT_WHOLE]),
    int(NodeGroupReason.NOT_EVALUATED): (Reason.NOT_EVALUATED, "not evaluated in time"),
}
"""Reasons of groups that would complete a gang if they might grow more, the most telling first."""
_NAMED: Final = 3


def unplaceable(at: int, gang: Gang, served: int) -> Rejection:
    """Return the rejection of a gang of which scale-up serves too few pods. served : pending pods that it serves."""
    count = len(gang.pending) - served
    detail = f"{_must_run(gang)}, and scale-up does not serve {count} of its {len(gang.pending)} pending pods"
    return Rejection(at, Reason.PODS_NOT_SERVED, lacking=gang.need - served, detail=detail)


def in_several_domains(at: int, gang: Gang) -> Rejection:
    """Return the rejection of a gang whose running pods are not in one domain."""
    detail = f"its running pods are not all on nodes with one value of {gang.topology_key}: the scheduler adds none"
    return Rejection(at, Reason.SEVERAL_DOMAINS, detail=detail)


def without_places(
    at: int, gang: Gang, lacking: int, progress: PlanInProgress, refusals: Refusals, groups: Bool
) -> Rejection:
    """Return the rejection of a gang for which places were looked for. lacking : pods without one that it needs;
    refusals : of all its pods without a place, at the end of the best attempt; groups : bool[G] that were allowed."""
    reason = refusals.reason.astype(np.int64)
    reason[:, ~groups] = NodeGroupReason.PREDICATE_FAILED
    counts = np.bincount(refusals.kind, minlength=len(reason))
    hopeless: Bool = np.logical_not(np.isin(reason, list(_LIMITS)).any(axis=1))
    beginning = f"{lacking} of {gang.need} pods that it needs have no place"
    if len(refusals.pods) - int(counts[hopeless].sum()) < lacking or hopeless.all():
        return _fits_nowhere(at, gang, lacking, beginning, refusals, hopeless)
    binding = {code: np.flatnonzero((reason == code).any(axis=0)) for code in _LIMITS if (reason == code).any()}
    code = next(iter(binding))
    ids = tuple(sorted(progress.groups[group].id for group in binding[code].tolist()))
    named = ", ".join(ids[:_NAMED]) + (f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else "")
    states = {
        limit: _LIMITS[limit][1].format(resource=_resource(progress, groups)) for limit, groups in binding.items()
    }
    others = [f"{len(groups)} {states[limit]}" for limit, groups in binding.items() if limit != code]
    ending = f"; of others that would help, {', '.join(others)}" if others else ""
    sentence = f"{beginning}: {named} would help and {'is' if len(ids) == 1 else 'are'} {states[code]}{ending}"
    return Rejection(at, _LIMITS[code][0], ids, lacking, _in_domains(gang, sentence))


def _fits_nowhere(at: int, gang: Gang, lacking: int, beginning: str, refusals: Refusals, hopeless: Bool) -> Rejection:
    """Return the rejection of a gang some of whose pods no group would take. hopeless : bool[kinds]."""
    predicates = refusals.predicate[hopeless]
    codes = Counter(predicates[predicates > 0].tolist())
    why = PREDICATE_TEXTS[codes.most_common(1)[0][0]].on_new_node if codes else "there is no node group for them"
    if gang.topology_key:
        return Rejection(at, Reason.NO_DOMAIN_FITS, (), lacking, _in_domains(gang, f"{beginning}: {why}"))
    return Rejection(at, Reason.NO_NODE_GROUP_FITS, (), lacking, f"{beginning}, and no node group would help: {why}")


def _in_domains(gang: Gang, sentence: str) -> str:
    return f"in no domain of {gang.topology_key}: at best, {sentence}" if gang.topology_key else sentence


def _resource(progress: PlanInProgress, groups: Int64) -> str:
    """Return the limit that keeps the first of these groups from growing, in words."""
    limits = (progress.limits.binding(group) for group in groups.tolist())
    return next((limit for limit in limits if limit is not None), "resources")


def _must_run(gang: Gang) -> str:
    return f"{gang.min_count} pods must run together"
