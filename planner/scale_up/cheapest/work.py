"""Arrays that the loops of the cheapest plan work on."""

import numpy as np

from planner.scale_up.cheapest.kernels.build import Batches
from planner.scale_up.cheapest.kernels.fill import Bench, Shapes
from planner.scale_up.cheapest.problem import Float64, Problem


def shapes_of(problem: Problem, cost: Float64) -> Shapes:
    """Return what does not change while nodes are planned. cost : float64[G]."""
    allowed = np.ascontiguousarray(problem.allowed.T)
    return Shapes(problem.demand, problem.capacity, allowed, problem.per_node, problem.zone, cost)


def bench_for(problem: Problem) -> Bench:
    """Return scratch for filling nodes."""
    classes, resources = problem.demand.shape
    return Bench(
        np.zeros(resources, np.int64), np.zeros(resources), np.zeros(classes, np.int32),
        np.zeros(classes, np.int64), np.zeros(classes, np.int64),
    )  # fmt: skip


def batches_for(problem: Problem) -> Batches:
    """Return room for as many batches and entries as can be."""
    pods = int(problem.pods.sum())
    return Batches(
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(pods + 1, np.int64),
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip
