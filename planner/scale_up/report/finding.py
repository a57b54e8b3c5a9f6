"""The result of the loop, as input of the report."""

from typing import NamedTuple

import numpy as np
from trimtab.v1.reason_pb2 import NodeGroupReason, PredicateReason

from planner.facts.prices import total
from planner.scale_up.choose import Choice
from planner.scale_up.context import Context
from planner.scale_up.growing import Growing
from planner.scale_up.reasons import Refusals
from planner.scale_up.waiting_pods import Unserved
from planner.scale_up.whole_plan import PlannedNodes
from planner.snapshot.columns import Int32


class Made(NamedTuple):
    """How a plan was made. planned : the plan for all pods at once, None = none was made; choices : in order; reasons :
    int32[G] why a group has no option, 0 = it could have."""

    planned: PlannedNodes | None
    choices: list[Choice]
    reasons: Int32


class Finding(NamedTuple):
    """The result of the loop. refusals : why pods are left."""

    context: Context
    unserved: Unserved
    growing: Growing
    made: Made
    refusals: Refusals

    def name_of(self, pod: int) -> str:
        """Return "namespace/name" of a pod, recently evicted ones included, or the name of a placeholder."""
        request = self.context.request
        pod_count = self.growing.within.simulation.pod_count
        if pod < pod_count:
            return request.snapshot.pod_key(pod)
        evictions = request.round.evictions
        if pod - pod_count < len(evictions):
            eviction = evictions[pod - pod_count]
            return f"{eviction.namespace}/{eviction.name}"
        return request.round.placeholders[pod - pod_count - len(evictions)]

    def names_of(self, pods: Int32) -> list[str]:
        """Return `name_of` of many pods."""
        snapshot = self.context.request.snapshot
        table, strings, pod_count = snapshot.pods, snapshot.strings, self.growing.within.simulation.pod_count
        if not (pods < pod_count).all():
            return [self.name_of(pod) for pod in pods.tolist()]
        text = table.name.data.tobytes()
        starts, ends = table.name.offsets[pods].tolist(), table.name.offsets[pods + 1].tolist()
        spaces = table.namespace[pods].tolist()
        rows = zip(spaces, starts, ends, strict=True)
        return [f"{strings[space]}/{text[start:end].decode()}" for space, start, end in rows]


def reasons_of(
    finding: Finding, kind: int
) -> tuple[dict[str, "NodeGroupReason.Code.ValueType"], dict[str, "PredicateReason.Code.ValueType"]]:
    """Return why pods of a kind are left: `NodeGroupReason.Code` by node group, and `PredicateReason.Code` by those of
    the groups whose new nodes refuse them.
    """
    refusals, ids = finding.refusals, [group.id for group in finding.growing.groups]
    reasons = dict(zip(ids, refusals.reason[kind].tolist(), strict=True))
    return reasons, {key: code for key, code in zip(ids, refusals.predicate[kind].tolist(), strict=True) if code}


def rating(finding: Finding) -> tuple[int, int, float, int]:
    """Return the quality of a plan, smaller is better: pods left, nodes of unknown price, price, nodes."""
    growing = finding.growing
    price = np.array([group.price_per_hour for group in growing.groups], np.float64)[growing.group_of]
    unknown = int(np.isnan(price).sum())
    return len(finding.refusals.pods), unknown, total(np.sort(price)), len(price)


def groups_that_grow(finding: Finding) -> list[str]:
    """Return the ids of the node groups that grow, sorted."""
    growing = finding.growing
    return sorted({growing.groups[group].id for group in growing.group_of})
