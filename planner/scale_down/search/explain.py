"""Why a candidate stays: the blocking pod and, if it has no place, how many nodes each predicate rules out. Uses the
simulation after the plan, with all pods of unneeded nodes moved. Pods of one class that depend only on their node get
the same answer, so each class is counted once. A pod that would find a place alone gets a text instead.

Nodes that stay because slack needs them: without their room a placeholder, or a pod that would displace one, has no
place; or they receive placeholders of nodes that go. Uses the simulation after the plan.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.drainability.kernels.limits import BLOCKED
from trimtab.planner.placement.kernels.search import count_failures, discount_failures
from trimtab.planner.predicates.counters import is_unlike_its_class
from trimtab.planner.scale_down.context import ScaleDownContext
from trimtab.planner.scale_down.search.drain_sets import DrainSet
from trimtab.planner.scale_down.search.kernels.drain_sets import DESTINATION, NO_PLACE, DrainProblem
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.state import OPEN
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1 import reason_pb2

Predicate = reason_pb2.PredicateReason
REASONS = max(Predicate.Code.values()) + 1
_PREDICATES: Final = {int(number): name for name, number in Predicate.Code.items()}
TOGETHER_DETAIL: Final = "each pod fits alone, but not all at the same time"


class Explanation(NamedTuple):
    """By node: pod without a place, pod over its budget, nodes by `PredicateReason` name, further text for people."""

    no_place: Mapping[int, int]
    over_budget: Mapping[int, int]
    failed: Mapping[int, Mapping[str, int]]
    details: Mapping[int, str]


def explain(simulation: Simulation, problem: DrainProblem, attempt: DrainSet | None) -> Explanation:
    """Explain the outcome of an attempt, with the simulation in its end state. O(classes of blocking pods · N)."""
    if attempt is None:
        return Explanation({}, {}, {}, {})
    unplaceable, over = _culprits(attempt.problem, NO_PLACE), _culprits(attempt.problem, BLOCKED)
    allowed = problem.search.allowed.copy()
    allowed[attempt.accepted] = False
    counts = _counts(simulation, allowed, unplaceable)
    failed = {
        node: {_PREDICATES.get(code, "UNSPECIFIED"): int(row[code]) for code in range(1, REASONS) if row[code]}
        for node, row in zip(unplaceable, counts, strict=True)
    }
    together = [node for node, row in zip(unplaceable, counts, strict=True) if row[0] > 0]
    return Explanation(unplaceable, over, failed, dict.fromkeys(together, TOGETHER_DETAIL))


def _culprits(problem: DrainProblem, outcome: int) -> dict[int, int]:
    """Return by node the blocking pod, for the nodes with an outcome."""
    return {int(node): int(problem.blocking_pod[node]) for node in np.flatnonzero(problem.outcome == outcome)}


def _counts(simulation: Simulation, allowed: Bool, unplaceable: Mapping[int, int]) -> Int64:
    """Return for each node in turn how many other nodes fail its pod, by reason. int64[K, REASONS]."""
    state = simulation.state
    nodes = np.fromiter(unplaceable.keys(), np.int32, len(unplaceable))
    pods = np.fromiter(unplaceable.values(), np.int32, len(unplaceable))
    # A pod with volumes is a class of its own, and so is one that counts for predicates on its own node.
    alone = is_unlike_its_class(state.counters, pods) | (state.local_class[state.pod_class[pods]] == 0)
    kind = np.where(alone, -1 - pods, state.pod_class[pods])
    _, first, of = np.unique(kind, return_index=True, return_inverse=True)
    by_kind = np.zeros((len(first), REASONS), np.int64)
    count_failures(state, pods[first], allowed, by_kind)
    counts = by_kind[of.reshape(-1)]
    # A pod's own node is not a destination; one that takes no pods has not been counted.
    counted = allowed[nodes]
    of_counted = counts[counted]
    discount_failures(state, pods[counted], nodes[counted], of_counted)
    counts[counted] = of_counted
    return counts


def needed_for_slack(context: ScaleDownContext, simulation: Simulation, problem: DrainProblem) -> Int32:
    """Return the nodes without a place for a placeholder, or for a pod that would fit if placeholders were absent,
    followed by the nodes that receive only placeholders. int32. For a pod, only amounts and static predicates are
    checked. O(nodes without a place + classes of blocking pods · N).
    """
    count = len(context.request.round.placeholders)
    if not count:
        return np.zeros(0, np.int32)
    unplaceable = np.flatnonzero(problem.outcome == NO_PLACE).astype(np.int32)
    destinations = _destinations(problem, len(simulation.state.pod_node) - count)
    return np.concatenate([_unplaceable(simulation, problem, unplaceable, count), destinations])


def _destinations(problem: DrainProblem, first: int) -> Int32:
    """Return the nodes that have received only placeholders (pods from `first` on). int32."""
    for_placeholders = []
    for node in np.flatnonzero(problem.outcome == DESTINATION).tolist():
        pod = int(problem.first_incoming[node])
        while pod >= first:
            pod = int(problem.next_incoming[pod])
        if pod < 0:
            for_placeholders.append(node)
    return np.array(for_placeholders, np.int32)


def _unplaceable(simulation: Simulation, problem: DrainProblem, unplaceable: Int32, count: int) -> Int32:
    """Return which of the nodes without a place for a pod stay for slack. count : placeholders, the last pods."""
    state = simulation.state
    blocking_pod = problem.blocking_pod[unplaceable]
    for_slack = blocking_pod >= len(state.pod_node) - count
    held = _held(simulation, count)
    room = state.resources.free + held
    for pod_class in np.unique(state.pod_class[blocking_pod[~for_slack & (blocking_pod >= 0)]]).tolist():
        need = state.resources.need[pod_class]
        takes = (state.node_state == OPEN) & problem.search.allowed & (state.blocked[pod_class, state.node_class] == 0)
        freed = takes & (room >= need).all(axis=1) & ~(state.resources.free >= need).all(axis=1)
        of_class = ~for_slack & (state.pod_class[blocking_pod] == pod_class)
        # A node's own room is not a destination for its pods.
        for_slack |= of_class & (int(freed.sum()) - freed[unplaceable] > 0)
    staying: Int32 = unplaceable[for_slack]
    return staying


def _held(simulation: Simulation, count: int) -> Int64:
    """Return the amounts that placeholders request on each node. int64[N, R]."""
    state = simulation.state
    held = np.zeros_like(state.resources.free)
    node, of_class = state.pod_node[-count:], state.pod_class[-count:]
    there = node >= 0
    np.add.at(held, node[there], state.resources.request[of_class[there]])
    return held
