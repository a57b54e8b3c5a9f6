"""Arrays for the loops of the cheapest plan."""

from typing import Final

import numpy as np

from trimtab.planner.scale_up.cheapest.kernels.build import Batches
from trimtab.planner.scale_up.cheapest.kernels.fill import Bench, Shapes
from trimtab.planner.scale_up.cheapest.kernels.generate import Watch
from trimtab.planner.scale_up.cheapest.kernels.master import Master, begin
from trimtab.planner.scale_up.cheapest.problem import Float64, Problem
from trimtab.planner.snapshot.columns import Int32, Int64

SPARE: Final = 4096
"""Additional batches for the improvement of a plan."""
MISSING: Final = 100.0
"""Cost of a pod without a place in the linear programme, in nodes of the highest price."""


def shapes_of(problem: Problem, cost: Float64) -> Shapes:
    """Return the data that do not change while nodes are planned. cost : float64[G]."""
    allowed = np.ascontiguousarray(problem.allowed.T)
    return Shapes(problem.demand, problem.capacity, allowed, problem.per_node, problem.zone, cost)


def bench_for(problem: Problem) -> Bench:
    """Return scratch for filling nodes."""
    classes, resources = problem.demand.shape
    return Bench(
        np.zeros(resources, np.int64), np.zeros(resources), np.zeros(classes, np.int64), np.zeros(classes, np.int32),
        np.zeros(classes, np.int64), np.arange(classes, dtype=np.int32), np.array([classes, 0]),
    )  # fmt: skip


def batches_for(problem: Problem) -> Batches:
    """Return space for the largest possible number of batches and entries."""
    pods = 2 * int(problem.pods.sum()) + SPARE
    return Batches(
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(pods + 1, np.int64),
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip


def master_for(problem: Problem, cost: Float64, limited: Int64) -> Master:
    """Return a linear programme without fills. limited : groups whose node limit is a row of it."""
    classes = len(problem.pods)
    rows = classes + len(limited)
    fills = 4 * rows + 256
    entries = fills * min(classes + 1, 48) + classes
    of_columns = np.zeros(rows + classes + fills)
    of_columns[:classes] = MISSING * cost.max()
    bound = np.concatenate([problem.pods, problem.most[limited]]).astype(np.float64)
    master = Master(
        np.array([classes]), np.zeros(fills + 1, np.int64), np.zeros(2, np.int64), np.zeros(entries, np.int32),
        np.zeros(entries), np.zeros(fills, np.int32), of_columns, bound, np.zeros(rows, np.int32),
        np.zeros(len(of_columns), bool), np.zeros((rows, rows)), np.zeros(rows), np.zeros(rows), np.zeros(rows),
    )  # fmt: skip
    begin(master)
    return master


def watch_for(problem: Problem, groups: Int32, limited: Int64) -> Watch:
    """Return the considered groups with empty data."""
    limit_row = np.full(len(problem.most), -1, np.int32)
    limit_row[limited] = len(problem.pods) + np.arange(len(limited))
    return Watch(groups, np.zeros(len(groups)), limit_row, np.zeros(len(problem.pods)), np.zeros(3, np.int64))


def append_batches(made: Batches, more: Batches) -> None:
    """Append the batches that have nodes."""
    count = int(more.counts[0])
    batch, entry = (int(one) for one in made.counts)
    kept = np.flatnonzero(more.nodes[:count] > 0)
    lengths = np.diff(more.offsets[: count + 1])
    entries = np.flatnonzero(np.repeat(more.nodes[:count] > 0, lengths))
    made.group[batch : batch + len(kept)] = more.group[kept]
    made.nodes[batch : batch + len(kept)] = more.nodes[kept]
    made.offsets[batch + 1 : batch + 1 + len(kept)] = entry + np.cumsum(lengths[kept])
    made.classes[entry : entry + len(entries)] = more.classes[entries]
    made.pods[entry : entry + len(entries)] = more.pods[entries]
    made.counts[:] += len(kept), len(entries)
