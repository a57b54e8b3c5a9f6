"""Who holds room in plans, other than in the cluster as it runs: expendable pods do not, nominated pods do.

- Pods below the priority cutoff are on no node: others preempt them. Pods that never preempt get only room beside them.
- A pod that the scheduler has nominated for a node is there, if it fits once pods of lower priority and terminating
  ones are gone. All pods count until they are gone, so that the node may be overfull.

Pure. Cost: O(P) vectorised, then O(pods of a node) for each nominated pod and for each node with expendable pods.
Source: Cluster Autoscaler, core/podlistprocessor/filter_out_expendable and core/static_autoscaler; kube-scheduler,
RunFilterPluginsWithNominatedPods.
"""

import numpy as np

from trimtab.planner.facts.nodes import planned_traits
from trimtab.planner.model.values import NodeTraits
from trimtab.planner.predicates.expendable_pods import Amounts
from trimtab.planner.predicates.resources import PODS
from trimtab.planner.simulation.kernels import fits, place, remove
from trimtab.planner.simulation.log import commit
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import FLAG_GATED, NO_NODE, Bool, Int64, Snapshot


def running(snapshot: Snapshot) -> Bool:
    """Return which pods are on a node and have not ended. bool[P]."""
    runs: Bool = (snapshot.pods.node >= 0) & ~snapshot.pods.is_terminal()
    return runs


def expendable(snapshot: Snapshot, cutoff: int) -> Bool:
    """Return which pods run and have a priority below the cutoff. bool[P]."""
    below = snapshot.spec_priorities() < cutoff
    return running(snapshot) & below[snapshot.pods.spec] if below.any() else np.zeros(len(snapshot.pods.spec), np.bool_)


def traits_in_plans(snapshot: Snapshot, cutoff: int) -> tuple[NodeTraits, ...]:
    """Return the traits of the nodes with the attach limits of their groups, and with the room that is left beside
    expendable pods, if some pod never preempts."""
    traits = list(planned_traits(snapshot))
    if any(spec.never_preempts for spec in snapshot.specs):
        for node in np.unique(snapshot.pods.node[expendable(snapshot, cutoff)]).tolist():
            traits[node] = traits[node]._replace(beside_expendable=_room(snapshot, node))
    return tuple(traits)


def _room(snapshot: Snapshot, node: int) -> Amounts:
    rest = dict(zip(snapshot.resources, snapshot.nodes.allocatable[node].tolist(), strict=True))
    rows = np.flatnonzero(running(snapshot) & (snapshot.pods.node == node))
    for spec in snapshot.pods.spec[rows].tolist():
        for name, amount in (*snapshot.specs[spec].requests, (PODS, 1)):
            rest[name] = rest.get(name, 0) - amount
    return tuple(rest.items())


def nominated_pods(snapshot: Snapshot) -> Int64:
    """Return the pods on no node that the scheduler has nominated for one of the snapshot. int64."""
    pods = snapshot.pods
    if not (pods.nominated >= 0).any():
        return np.zeros(0, np.int64)
    waits = (pods.nominated >= 0) & (pods.node == NO_NODE) & (pods.deletion_s == 0) & ~pods.is_terminal()
    nominated: Int64 = np.flatnonzero(waits & ((pods.flags & FLAG_GATED) == 0))
    return nominated


def hold_nominated(state: SimulationState, snapshot: Snapshot, cutoff: int) -> None:
    """Put nominated pods on their nodes, the most important first."""
    pods, rows = snapshot.pods, nominated_pods(snapshot)
    if not len(rows):
        return
    priority = snapshot.spec_priorities()[pods.spec]
    rows = rows[priority[rows] >= cutoff]
    for pod in rows[np.lexsort((rows, pods.created_s[rows], -priority[rows]))].tolist():
        node = int(pods.nominated[pod])
        there = state.pod_node[: len(priority)] == node
        victims: Int64 = np.flatnonzero(there & ((priority < priority[pod]) | (pods.deletion_s != 0)))
        for victim in victims.tolist():
            remove(state, victim)
        is_held = fits(state, pod, node)
        for victim in victims.tolist():
            place(state, victim, node)
        if is_held:
            place(state, pod, node)
        commit(state)
