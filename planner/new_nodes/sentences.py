"""Why no node group helps a pod, in one sentence for people."""

from collections import Counter
from collections.abc import Mapping, Set
from typing import Final, NamedTuple

from trimtab.reason_texts import PREDICATE_TEXTS
from trimtab.v1.reason_pb2 import NodeGroupReason

OF_GROUP: Final = {
    NodeGroupReason.MAX_SIZE_REACHED: "at the maximum size",
    NodeGroupReason.RESOURCE_LIMIT_REACHED: "prevented from growing by the limit on {resource}",
    NodeGroupReason.MAX_NEW_NODES_REACHED: "skipped because the plan already adds the maximum number of nodes",
    NodeGroupReason.BACKED_OFF: "in back-off after a scale-up that failed",
    NodeGroupReason.UNHEALTHY: "unhealthy",
    NodeGroupReason.NO_TEMPLATE: "without template and without nodes",
    NodeGroupReason.NOT_WHOLE: "unable to grow as a whole",
    NodeGroupReason.NOT_CHOSEN: "not chosen by an expander",
    NodeGroupReason.PRICE_UNKNOWN: "without a price",
    NodeGroupReason.PRIORITY_INVALID: "with a priority that is not a number",
    NodeGroupReason.NODE_GROUP_INVALID: "with contradictory values",
    NodeGroupReason.NOT_EVALUATED: "not evaluated",
    NodeGroupReason.GANG_INCOMPLETE: "of use only if the pod's gang could be whole",
}
"""What is said of a group that does not help."""
_OF_GROWN_GROUP: Final = {
    NodeGroupReason.MAX_SIZE_REACHED: "filled by this plan up to the maximum size",
    NodeGroupReason.RESOURCE_LIMIT_REACHED: "filled by this plan as far as the limit on {resource} allows",
    NodeGroupReason.MAX_NEW_NODES_REACHED: "filled by this plan, which already adds the maximum number of nodes",
}
"""Of a group that this plan grows for other pods."""


class GrowthInPlan(NamedTuple):
    """What a plan adds. growing : ids of the node groups that grow; limits : by group, the resource whose limit keeps
    it from growing further."""

    growing: Set[str]
    limits: Mapping[str, str]


def why_pending(reasons: Mapping[str, int], failed: Mapping[str, int], growth: GrowthInPlan) -> str:
    """Return the sentence. reasons : `NodeGroupReason.Code` by node group; failed : `PredicateReason.Code` likewise.

    The most frequent reason comes first.
    """
    if not reasons:
        return "there is no node group"
    texts, is_full = Counter[str](), False
    for group, reason in sorted(reasons.items()):
        if group in failed:
            texts[PREDICATE_TEXTS[failed[group]].on_new_node] += 1
            continue
        full = _OF_GROWN_GROUP.get(reason) if group in growth.growing else None  # type: ignore[call-overload]
        is_full |= full is not None
        texts[(full or OF_GROUP[reason]).format(resource=growth.limits.get(group, "resources"))] += 1  # type: ignore[index]
    many = len(reasons)
    parts = (f"{count} of {many}: {text}" for text, count in sorted(texts.items(), key=lambda one: (-one[1], one[0])))
    return f"{'no node group has room left' if is_full else 'no node group helps'} ({', '.join(parts)})"
