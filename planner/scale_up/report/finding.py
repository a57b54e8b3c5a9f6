"""What the loop hands to the report."""

from typing import NamedTuple

from planner.scale_up.choose import Choice
from planner.scale_up.growing import Growing
from planner.scale_up.reasons import Refusals
from planner.scale_up.situation import Situation
from planner.scale_up.waiting_pods import Unserved
from planner.snapshot.columns import Int32


class Finding(NamedTuple):
    """What the loop found. reasons : int32[G] why a group has no option, 0 = it could have; refusals : why pods are
    left."""

    situation: Situation
    unserved: Unserved
    growing: Growing
    choices: list[Choice]
    reasons: Int32
    refusals: Refusals

    def name_of(self, pod: int) -> str:
        """Return "namespace/name" of a pod, those evicted lately included, or the name of a placeholder."""
        request = self.situation.request
        known = self.growing.within.simulation.pod_count
        if pod < known:
            return request.snapshot.pod_key(pod)
        evictions = request.round.evictions
        if pod - known < len(evictions):
            eviction = evictions[pod - known]
            return f"{eviction.namespace}/{eviction.name}"
        return request.round.placeholders[pod - known - len(evictions)]
