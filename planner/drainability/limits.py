"""The limits of a cluster on nodes that leave (`kernels.limits`), from its budgets, minimums and pods to move."""

from collections.abc import Sequence

import numpy as np

from trimtab.planner.drainability.kernels.limits import NodeLimits, admit
from trimtab.planner.facts import pdb
from trimtab.planner.facts.node_limits import ActiveNodeBudget, Spare
from trimtab.planner.facts.pdb import BudgetMembership
from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import entries_of


def node_limits(
    snapshot: Snapshot,
    moving: tuple[Int64, Int32],
    under: BudgetMembership,
    disruptions: Int64,
    spare: Spare,
    budgets: Sequence[ActiveNodeBudget],
    *,
    in_turn: int = 0,
) -> NodeLimits:
    """Return the limits. moving : int64[N+1] offsets into int32[M] pods to move, by node; disruptions : int64[B] left
    of budgets; budgets : for nodes. What is left is copied. O(N + M + pairs of pods and budgets).

    No eviction API makes evictions wait for gangs, so only of PodDisruptionBudgets a node needs no more than they ever
    allow at once; or, if in_turn > 0, so many nodes of each may need more than is left.
    """
    most, waits = np.zeros(len(disruptions), np.int64), np.zeros(len(disruptions), np.int64)
    waits[: len(snapshot.budgets)] = in_turn
    if not in_turn:
        most[: len(snapshot.budgets)] = pdb.refilled_disruptions(snapshot.budgets)
    most[most == 0] = np.iinfo(np.int64).max
    nodes = len(snapshot.nodes.name)
    counted = np.array([one.counted for one in budgets], bool).reshape(len(budgets), nodes)
    return NodeLimits(
        *budget_uses(*moving, under, most),
        spare.group,
        spare.amount,
        counted,
        disruptions.copy(),
        waits,
        spare.group_left.copy(),
        spare.amount_left.copy(),
        np.array([one.left for one in budgets], np.int64),
    )


def budget_uses(offsets: Int64, pods: Int32, under: BudgetMembership, most: Int64) -> tuple[Int64, Int32, Int64, Int32]:
    """Return the first four fields of `NodeLimits`: by node, each budget once, in the order of the first pods that use
    it. most : int64[B] that a node needs at most."""
    lengths = under.offsets[pods + 1] - under.offsets[pods]
    pairs = entries_of(under.offsets, pods)
    row = np.repeat(np.arange(len(pods)), lengths)
    used = under.needs[pairs] > 0
    pairs, row = pairs[used], row[used]
    node = np.searchsorted(offsets, row, side="right") - 1
    keys = node * max(len(most), 1) + under.budgets[pairs]
    _, first, of = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    first = first[order]
    budget = under.budgets[pairs[first]]
    need = np.minimum(np.bincount(of.reshape(-1), minlength=len(first))[order], most[budget])
    return np.searchsorted(node[first], np.arange(len(offsets))), budget, need, pods[row[first]]


def nodes_using(limits: NodeLimits, uses: Bool) -> Bool:
    """Return the nodes with any of the uses : bool, rows of `limits.budget`. bool[N]."""
    upto = np.concatenate([np.zeros(1, np.int64), np.cumsum(uses, dtype=np.int64)])
    found: Bool = np.diff(upto[limits.offsets]) > 0
    return found


def admitted(limits: NodeLimits, order: Int32, most: int) -> tuple[Int32, Int32]:
    """Return the first nodes of an order that may leave together, at most so many, and why others may not, each
    `UnremovableReason.Code` once. int32 both. A node that may not leave with those before is passed over."""
    nodes, refused = order.copy(), np.zeros(len(order), np.int32)
    count = admit(limits.copied(), nodes, most, refused)
    return nodes[:count], np.unique(refused[refused > 0])


def admits(limits: NodeLimits, nodes: Int32) -> bool:
    """Return whether all nodes may leave together."""
    return len(admitted(limits, nodes, len(nodes))[0]) == len(nodes)
