"""Carries out preemptions: victims are terminated, the pending pod is nominated for their node.

The scheduler decides the victims; their controllers create pods in their place, which wait like others. A pod without
a controller is gone. A pod does not preempt again while victims on its nominated node are still ending. The journal has
a line "preempted" with namespace and name of each victim.
Source: Kubernetes, pkg/scheduler/framework/plugins/defaultpreemption, PodEligibleToPreemptOthers.
"""

from collections.abc import Callable
from typing import Final

from trimtab.clients.simulation.cluster.objects import condition_reason
from trimtab.clients.simulation.cluster.pods import SimulatedPod, priority_of
from trimtab.clients.simulation.cluster.state import ClusterState

BY_SCHEDULER: Final = "PreemptionByScheduler"
"""Reason of the condition DisruptionTarget of a pod that another one has preempted."""


class Preemptor:
    """The preemptions of one pass of the scheduler. `terminate` : ends a pod with a grace period in seconds."""

    def __init__(self, state: ClusterState, terminate: Callable[[SimulatedPod, int], None]) -> None:
        self._state, self._terminate = state, terminate
        self.has_preempted = False
        # Kinds of pods that found no victims: others like them find none either.
        self._hopeless: set[tuple[object, ...]] = set()

    def preempt(self, pod: SimulatedPod, alike: tuple[object, ...]) -> None:
        """Preempt for a pod that fits nowhere, if possible. alike : equal for pods that fit the same nodes."""
        state = self._state
        kind = (alike, priority_of(pod))
        if pod.spec.get("preemptionPolicy") == "Never" or self._waits(pod):
            return
        found = None if kind in self._hopeless else state.scheduler.preempt(pod, state.budgets)
        if found is None:
            self._hopeless.add(kind)
            if pod.nominated_node:
                state.scheduler.withdraw(pod)
                state.nominate(pod, "")
            return
        for one in state.scheduler.nominate(pod, found.node.name):
            state.nominate(one, "")
        state.nominate(pod, found.node.name)
        for victim in found.victims:
            if not victim.terminating:
                self._end(victim)

    def _end(self, victim: SimulatedPod) -> None:
        status = victim.item.get("status") or {}
        ended = {"type": "DisruptionTarget", "status": "True", "reason": BY_SCHEDULER}
        victim.item["status"] = {**status, "conditions": [*(status.get("conditions") or ()), ended]}
        self._state.note("preempted", "/".join(victim.key))
        self._terminate(victim, victim.grace_s)
        self.has_preempted = True

    def _waits(self, pod: SimulatedPod) -> bool:
        """Return whether pods that this one has preempted are still ending."""
        info = self._state.nodes.get(pod.nominated_node)
        return info is not None and any(
            one.terminating
            and priority_of(one) < priority_of(pod)
            and condition_reason(one.item, "DisruptionTarget") == BY_SCHEDULER
            for one in info.pods.values()
        )
