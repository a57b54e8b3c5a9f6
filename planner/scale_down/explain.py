"""Why a candidate stays: the pod in the way and, where it finds no place, how many nodes each predicate rules out.

Asked of the simulation as the plan leaves it, all pods of unneeded nodes moved. Pods of one class and without volumes
of their own get the same answer, so each class is counted once.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from trimtab.v1 import reason_pb2

from planner.scale_down.codes import predicate_name
from planner.scale_down.drain_sets import Attempt
from planner.scale_down.kernels.drain_sets import BLOCKED, NO_PLACE, Problem, count_failures
from planner.simulation.build import Simulation
from planner.snapshot.columns import Bool, Int64

Predicate = reason_pb2.PredicateReason
REASONS = max(Predicate.Code.values()) + 1
TOGETHER_DETAIL = "there is a place for each pod alone, but not for all at the same time"


class Explanation(NamedTuple):
    """By node: pod without a place, pod over its budget, nodes by `PredicateReason` name, more for people."""

    no_place: Mapping[int, int]
    over_budget: Mapping[int, int]
    failed: Mapping[int, Mapping[str, int]]
    details: Mapping[int, str]


def explain(simulation: Simulation, problem: Problem, attempt: Attempt | None) -> Explanation:
    """Explain the outcome of an attempt, whose end state the simulation is in. O(classes in the way · N)."""
    if attempt is None:
        return Explanation({}, {}, {}, {})
    stuck = {
        int(node): int(attempt.problem.culprit[node]) for node in np.flatnonzero(attempt.problem.outcome == NO_PLACE)
    }
    over = {
        int(node): int(attempt.problem.culprit[node]) for node in np.flatnonzero(attempt.problem.outcome == BLOCKED)
    }
    allowed = problem.search.allowed.copy()
    allowed[attempt.accepted] = False
    by_class: dict[tuple[int, int], Int64] = {}
    failed: dict[int, Mapping[str, int]] = {}
    details: dict[int, str] = {}
    for node, pod in stuck.items():
        counts = _counts(simulation, allowed, pod, by_class)
        failed[node] = _named(counts - _own(simulation, allowed, pod, node))
        if counts[0] - _own(simulation, allowed, pod, node)[0] > 0:
            details[node] = TOGETHER_DETAIL
    return Explanation(stuck, over, failed, details)


def _counts(simulation: Simulation, allowed: Bool, pod: int, by_class: dict[tuple[int, int], Int64]) -> Int64:
    state = simulation.state
    alone = pod if state.volumes.row[pod] >= 0 else -1
    key = (int(state.pod_class[pod]), alone)
    if key not in by_class:
        by_class[key] = np.zeros(REASONS, np.int64)
        count_failures(state, pod, allowed, by_class[key])
    return by_class[key]


def _own(simulation: Simulation, allowed: Bool, pod: int, node: int) -> Int64:
    """Return what the pod's own node adds to the counts; it is no destination."""
    counts = np.zeros(REASONS, np.int64)
    only = np.zeros(len(allowed), bool)
    only[node] = allowed[node]
    count_failures(simulation.state, pod, only, counts)
    return counts


def _named(counts: Int64) -> Mapping[str, int]:
    return {predicate_name(reason): int(counts[reason]) for reason in range(1, REASONS) if counts[reason]}
