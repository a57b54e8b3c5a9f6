"""The linear programme over fills of nodes: how many nodes of each fill take all pods at the least cost.

Minimise the sum of cost · level over the columns, one a fill, with at least `bound` pods of every class (rows 0 … C-1)
and at most `bound` nodes of some groups (rows C … M-1), levels >= 0. Levels may be fractional. The revised simplex
method with a dense inverse of the basis. Numbers of columns: 0 … M-1 what is missing in a row (cost MISSING) or left of
it (0), M … M+C-1 the surplus of a class, from M+C on the fills.
Source: Gilmore and Gomory 1961; Dantzig and Orchard-Hays 1954.
"""

from typing import Any, NamedTuple

from trimtab.planner.compiled.by_reference import by_reference
from trimtab.planner.compiled.decorators import inlined_kernel, inner_kernel, kernel
from trimtab.planner.model.tuning import NUDGE, TOLERANCE
from trimtab.planner.snapshot.columns import Float64, Int32, Int64


@by_reference()
class MasterProblem(NamedTuple):
    """The programme and its current basis.

    classes  : int64[1]      C
    offsets  : int64[F+1]    entries of each fill in row and entry; counts : int64[2] fills, entries
    row      : int32[E], entry : float64[E]
    group    : int32[F]      of each fill
    cost     : float64[M+C+F]   of every column
    bound    : float64[M]
    basis    : int32[M]      column of each row of the basis; basic : bool[M+C+F] whether a column is in it
    inverse  : float64[M, M] of the basis
    level    : float64[M]    of the basic columns
    dual     : float64[M]    what one more in `bound` of a row costs
    step     : float64[M]    scratch
    """

    classes: Int64
    offsets: Int64
    counts: Int64
    row: Int32
    entry: Float64
    group: Int32
    cost: Float64
    bound: Float64
    basis: Int32
    basic: Any
    inverse: Float64
    level: Float64
    dual: Float64
    step: Float64


@inlined_kernel
def columns(master: MasterProblem) -> int:
    """Return the number of columns."""
    return int(len(master.bound) + master.classes[0] + master.counts[0])


@inlined_kernel
def column_product(master: MasterProblem, of_row: Float64, column: int) -> float:
    """Return the product of a row vector, float64[M], with a column."""
    rows = len(master.bound)
    if column < rows:
        return float(of_row[column])
    if column < rows + master.classes[0]:
        return float(-of_row[column - rows])
    total, fill = 0.0, column - rows - master.classes[0]
    for at in range(master.offsets[fill], master.offsets[fill + 1]):
        total += of_row[master.row[at]] * master.entry[at]
    return total


@inlined_kernel
def compute_step(master: MasterProblem, column: int) -> None:
    """Set step to the inverse times a column."""
    rows = len(master.bound)
    for row in range(rows):
        master.step[row] = column_product(master, master.inverse[row], column)


@inner_kernel
def compute_duals(master: MasterProblem) -> None:
    """Set the duals by the basis."""
    rows = len(master.bound)
    for row in range(rows):
        master.dual[row] = 0.0
    for row in range(rows):
        cost = master.cost[master.basis[row]]
        if cost != 0.0:
            for at in range(rows):
                master.dual[at] += cost * master.inverse[row, at]


@kernel
def reset_basis(master: MasterProblem) -> None:
    """Start with only the missing and left amounts of each row in the basis."""
    rows = len(master.bound)
    for column in range(columns(master)):
        master.basic[column] = column < rows
    for row in range(rows):
        master.basis[row] = row
        master.level[row] = master.bound[row] + NUDGE * (row * 40503 % 65536)
        for at in range(rows):
            master.inverse[row, at] = 1.0 if row == at else 0.0


@inner_kernel
def pivot(master: MasterProblem, leaving: int, entering: int, reduced: float) -> None:
    """Enter a column into the basis at a row; step is set for it, reduced is its reduced cost."""
    rows = len(master.bound)
    by = 1.0 / master.step[leaving]
    for at in range(rows):
        master.inverse[leaving, at] *= by
    master.level[leaving] *= by
    for row in range(rows):
        factor = master.step[row]
        if row != leaving and factor != 0.0:
            for at in range(rows):
                master.inverse[row, at] -= factor * master.inverse[leaving, at]
            master.level[row] -= factor * master.level[leaving]
    for at in range(rows):
        master.dual[at] += reduced * master.inverse[leaving, at]
    master.basic[master.basis[leaving]] = False
    master.basis[leaving] = entering
    master.basic[entering] = True


@kernel
def solve(master: MasterProblem, limit: int) -> int:
    """Make at limit the given number of steps of the primal simplex method from levels >= 0; return how
    many were made.
    """
    compute_duals(master)
    rows, classes = len(master.bound), master.classes[0]
    for steps in range(limit):
        entering, least = -1, -TOLERANCE * 1e3
        for column in range(classes, columns(master)):
            if not master.basic[column]:
                reduced = master.cost[column] - column_product(master, master.dual, column)
                if reduced < least:
                    entering, least = column, reduced
        if entering < 0:
            return steps
        compute_step(master, entering)
        leaving, ratio = -1, 0.0
        for row in range(rows):
            if master.step[row] > TOLERANCE:
                its = max(master.level[row], 0.0) / master.step[row]
                if leaving < 0 or its < ratio or (its == ratio and master.basis[row] < master.basis[leaving]):
                    leaving, ratio = row, its
        if leaving < 0:
            return steps
        pivot(master, leaving, entering, least)
    return limit
