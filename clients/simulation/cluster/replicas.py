"""Controllers that change their number of pods: which pods are created, and which are removed first. Chooses the
victims as the ReplicaSet controller does: those without node first, then not running, then not ready, then by pod
deletion cost, then those that share their node with most other pods of the controller, then the youngest; for ages with
the same power of two, in nanoseconds, the uid decides. A StatefulSet removes the highest number first.
Source: Kubernetes, pkg/controller/controller_utils.go, ActivePodsWithRanks and logarithmicRankDiff.
"""

import math
import re
from collections import Counter
from typing import Any, Final

from trimtab.clients.simulation.cluster.controllers import Controllers
from trimtab.clients.simulation.cluster.pods import SimulatedPod, parse_time_ms
from trimtab.clients.simulation.cluster.state import ClusterState
from trimtab.common.kubernetes.names import POD_COST_ANNOTATION
from trimtab.common.kubernetes.object_files import Object

_COST: Final = re.compile(r"-?\d{1,10}", re.ASCII)


def scale(state: ClusterState, controllers: Controllers, owner: Object, replicas: int) -> None:
    """Change the number of pods of a ReplicaSet, StatefulSet or Job, inside a transaction."""
    field = "parallelism" if owner["kind"] == "Job" else "replicas"
    owner["spec"][field] = replicas
    state.put(owner)
    uid, template = owner["metadata"]["uid"], owner["spec"].get("template") or {}
    count = state.tallies.of(uid).active
    pods: list[SimulatedPod] = []
    if count > replicas or owner["kind"] == "StatefulSet":
        pods = [pod for pod in state.pods_by_owner.get(uid, {}).values() if pod.active]
    if owner["kind"] == "StatefulSet":
        present = {_ordinal(pod) for pod in pods}
        for number in sorted(set(range(replicas)) - present):
            controllers.create_pod(owner, template, number)
    else:
        for _ in range(replicas - count):
            controllers.create_pod(owner, template)
    surplus = max(0, count - replicas)
    for pod in _order(owner, pods, state.now_ms)[:surplus] if surplus else ():
        if pod.node:
            controllers.terminate(pod, pod.grace_s)
        else:
            state.drop_pod(pod)


def _order(owner: Object, pods: list[SimulatedPod], now_ms: int) -> list[SimulatedPod]:
    """Return the pods in the order of their removal."""
    if owner["kind"] == "StatefulSet":
        return sorted(pods, key=lambda pod: -_ordinal(pod))
    on_node = Counter(pod.node for pod in pods)

    def rank(pod: SimulatedPod) -> tuple[Any, ...]:
        cost, node = _cost(pod), pod.node
        of_node = (bool(node), pod.phase == "Running", pod.ready, cost, -on_node[node])
        return *of_node, _age_rank(now_ms - _since_ms(pod)), pod.uid

    return sorted(pods, key=rank)


def _cost(pod: SimulatedPod) -> int:
    """Return the pod deletion cost; one that cannot be read is 0, as for the ReplicaSet controller."""
    text = pod.annotations.get(POD_COST_ANNOTATION)
    return int(text) if text and _COST.fullmatch(text) else 0


def _since_ms(pod: SimulatedPod) -> int:
    """Return since when a pod has been ready; if it is not ready, when it was created."""
    return pod.ready_since_ms or parse_time_ms(pod.item["metadata"].get("creationTimestamp"))


def _age_rank(age_ms: int) -> int:
    """Return the power of two of an age in nanoseconds, -1 = the pod is younger than that."""
    return int(math.log2(age_ms * 1_000_000)) if age_ms > 0 else -1


def _ordinal(pod: SimulatedPod) -> int:
    ending = pod.key[1].rpartition("-")[2]
    return int(ending) if ending.isdecimal() else -1
