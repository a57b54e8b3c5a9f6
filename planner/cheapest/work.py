"""Arrays for the loops of the cheapest plan."""

from typing import Final

import numpy as np

from trimtab.planner.cheapest.kernels.build import Batches
from trimtab.planner.cheapest.kernels.fill import FillState
from trimtab.planner.cheapest.kernels.generate import PricingState
from trimtab.planner.cheapest.kernels.master import MasterProblem, reset_basis
from trimtab.planner.cheapest.problem import Float64, Problem
from trimtab.planner.snapshot.columns import Int32, Int64

SPARE: Final = 4096
"""Additional batches for the improvement of a plan."""
MISSING: Final = 100.0
"""Cost of a pod without a place in the linear programme, in nodes of the highest price."""


def fill_state_for(problem: Problem, cost: Float64) -> FillState:
    """Return the state before any node is planned. cost : float64[G] > 0."""
    classes, resources = problem.demand.shape
    return FillState(
        problem.demand, problem.capacity, np.ascontiguousarray(problem.allowed.T), problem.per_node, problem.zone, cost,
        problem.pods.copy(), problem.most.copy(), problem.zone_most.copy(),
        np.zeros(resources, np.int64), np.zeros(resources), np.zeros(classes, np.int64), np.zeros(classes, np.int32),
        np.zeros(classes, np.int64), np.arange(classes, dtype=np.int32), np.array([classes, 0]),
    )  # fmt: skip


def unshared(state: FillState) -> FillState:
    """Return a state with its own numbers of pods and nodes still to be planned. The node being filled is shared."""
    return state._replace(pods=state.pods.copy(), nodes=state.nodes.copy(), zone_pods=state.zone_pods.copy())


def batches_for(problem: Problem) -> Batches:
    """Return space for the largest possible number of batches and entries."""
    pods = 2 * int(problem.pods.sum()) + SPARE
    return Batches(
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(pods + 1, np.int64),
        np.zeros(pods, np.int32), np.zeros(pods, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip


def master_for(problem: Problem, cost: Float64, limited: Int64) -> MasterProblem:
    """Return a linear programme without fills. limited : groups whose node limit is a row of it."""
    classes = len(problem.pods)
    rows = classes + len(limited)
    fills = 4 * rows + 256
    entries = fills * min(classes + 1, 48) + classes
    of_columns = np.zeros(rows + classes + fills)
    of_columns[:classes] = MISSING * cost.max()
    bound = np.concatenate([problem.pods, problem.most[limited]]).astype(np.float64)
    master = MasterProblem(
        np.array([classes]), np.zeros(fills + 1, np.int64), np.zeros(2, np.int64), np.zeros(entries, np.int32),
        np.zeros(entries), np.zeros(fills, np.int32), of_columns, bound, np.zeros(rows, np.int32),
        np.zeros(len(of_columns), bool), np.zeros((rows, rows)), np.zeros(rows), np.zeros(rows), np.zeros(rows),
    )  # fmt: skip
    reset_basis(master)
    return master


def pricing_for(problem: Problem, groups: Int32, limited: Int64) -> PricingState:
    """Return the considered groups with empty data."""
    limit_row = np.full(len(problem.most), -1, np.int32)
    limit_row[limited] = len(problem.pods) + np.arange(len(limited))
    return PricingState(groups, np.zeros(len(groups)), limit_row, np.zeros(len(problem.pods)), np.zeros(3, np.int64))


def append_batches(batches: Batches, more: Batches) -> None:
    """Append the batches that have nodes."""
    count = int(more.counts[0])
    batch, entry = (int(one) for one in batches.counts)
    kept = np.flatnonzero(more.nodes[:count] > 0)
    lengths = np.diff(more.offsets[: count + 1])
    entries = np.flatnonzero(np.repeat(more.nodes[:count] > 0, lengths))
    batches.group[batch : batch + len(kept)] = more.group[kept]
    batches.nodes[batch : batch + len(kept)] = more.nodes[kept]
    batches.offsets[batch + 1 : batch + 1 + len(kept)] = entry + np.cumsum(lengths[kept])
    batches.classes[entry : entry + len(entries)] = more.classes[entries]
    batches.pods[entry : entry + len(entries)] = more.pods[entries]
    batches.counts[:] += len(kept), len(entries)
