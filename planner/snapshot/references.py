"""References by name into a table where the name may be missing.

A missing name gets a special index in the column and is stored separately: a delta may add the row. Cost: O(rows)
vectorised, and a dictionary lookup per distinct name.

Negative numbers in a column of row numbers stand for no row of the table; `take_or` reads a value for them. There are:
NONE and MISSING here, for any table; `NO_NODE` and `UNKNOWN_NODE`, `NO_OWNER` and `UNKNOWN_OWNER`
(`trimtab.planner.snapshot.columns`), the same two for nodes, also those of simulations, and for owners.
A negative number that says more has its own name beside its column, such as `NO_TARGET`, `NO_ZONE`, `NO_GPU_YET`.
"""

from collections.abc import Mapping, Sequence
from operator import eq
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.snapshot.columns import Dangling, Int32
from trimtab.planner.snapshot.dictionaries import numbered

NONE = -1
"""No name is given: a pod on no node. Also: a row that is not known."""
MISSING = -2
"""A name that the table lacks."""
N = TypeVar("N", bound=np.generic)


def take_or(values: NDArray[N], row: NDArray[np.signedinteger[Any]], otherwise: float) -> NDArray[N]:
    """Return the value of each row, `otherwise` for NONE and MISSING. values : of a table's rows, any dtype, which the
    result has; row : from MISSING on. O(values + rows).
    """
    extended = np.empty(len(values) + 2, values.dtype)
    extended[:-2], extended[-2:] = values, otherwise
    column: NDArray[N] = extended[row]
    return column


def resolve(target: Int32, names: Sequence[str], row_of_name: Mapping[str, int]) -> tuple[Int32, Dangling]:
    """Return (index into the table, NONE for the name "", MISSING for a missing one; the dangling references).

    target : int32[P] into `names`, which may repeat; row_of_name : name to index.
    """
    lookup = np.full(len(names), NONE, np.int32)
    used = np.zeros(len(names), np.bool_)
    used[target] = True
    rows = np.flatnonzero(used)
    texts = [names[i] for i in rows.tolist()]
    lookup[rows] = np.fromiter(
        (row_of_name.get(text, MISSING) if text else NONE for text in texts), np.int32, len(texts)
    )
    column = lookup[target]
    missing = np.flatnonzero(column == MISSING).astype(np.int32)
    return column, dangling(missing, target[missing], names)


def dangling(rows: Int32, target: Int32, names: Sequence[str]) -> Dangling:
    """Return dangling references. rows : int32[U] ascending; target : int32[U], their references into `names`."""
    distinct, inverse = np.unique(target, return_inverse=True)
    texts = [names[i] for i in distinct.tolist()]
    order, ranks = numbered(texts)
    return Dangling(rows, ranks[inverse].astype(np.int32).reshape(-1), tuple(order))


def unresolve(column: Int32, names_of_rows: Sequence[str], dangling: Dangling) -> tuple[Int32, list[str]]:
    """Undo `resolve`: return (int32[P] into names; names: those of rows, the missing ones, ""). column : int32[P] into
    `names_of_rows`, NONE or MISSING.
    """
    names = [*names_of_rows, *dangling.names, ""]
    target = np.where(column == NONE, np.int32(len(names) - 1), column)
    target[dangling.row] = dangling.name + np.int32(len(names_of_rows))
    return target, names


class Followed(NamedTuple):
    """A column after its table was replaced, and its references that the new table lacks. column : int32[P] into the
    new table; rows : int32[U] ascending, target : int32[U] into `names`: the missing references.
    """

    column: Int32
    rows: Int32
    target: Int32
    names: list[str]


def follow(column: Int32, before: Sequence[str], lacks: Dangling, row_of_name: Mapping[str, int]) -> Followed:
    """Convert a column : int32[P] to the numbers of the table that replaces its own. before : the names of the old
    table; lacks : the old table's missing references; row_of_name : the new table's numbers by name, in ascending order
    of both. Vectorised.
    """
    # In most cases the table has the same rows as before.
    is_same = len(before) == len(row_of_name) and all(map(eq, before, row_of_name))
    new_rows = np.fromiter((row_of_name.get(name, MISSING) for name in lacks.names), np.int32, len(lacks.names))
    # The column also holds NONE and MISSING, which index from the end.
    moved = column if is_same else _looked_up(column, before, row_of_name)
    if (new_rows != MISSING).any():
        moved = moved.copy()
        moved[lacks.row] = new_rows[lacks.name]
    rows = np.flatnonzero(moved == MISSING).astype(np.int32)
    target = column[rows]
    lacked = target == MISSING
    target[lacked] = lacks.name[np.searchsorted(lacks.row, rows[lacked])] + np.int32(len(before))
    return Followed(moved, rows, target, [*before, *lacks.names])


def _looked_up(column: Int32, before: Sequence[str], row_of_name: Mapping[str, int]) -> Int32:
    """Return a column in the numbers of another table. before : the names of its own; row_of_name : of the other."""
    lookup = np.fromiter((row_of_name.get(name, MISSING) for name in before), np.int32, len(before))
    return column if is_identity(lookup) else np.append(lookup, np.array((MISSING, NONE), np.int32))[column]


def is_identity(numbers: Int32) -> bool:
    """Return whether each of numbers : int32[n] maps to itself."""
    return bool((numbers == np.arange(len(numbers), dtype=np.int32)).all())
