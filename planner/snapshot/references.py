"""References by name into a table that may lack the name.

Decides what becomes of a missing name: the column says so, and the name is kept aside, because a delta may bring what
is missing. Cost: O(rows) vectorised, and a dictionary look-up for each distinct name.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from planner.snapshot.columns import Dangling, Int32

NONE = -1
MISSING = -2


def resolve(target: Int32, names: Sequence[str], known: Mapping[str, int], settled: int = 0) -> tuple[Int32, Dangling]:
    """Return (index into the table, NONE for the name "" and MISSING for one it lacks; what is missing).

    target : int32[P] into `names`, which may repeat; known : name to index; the first `settled` of the names are known
    to be the first ones of the table.
    """
    lookup = np.full(len(names), NONE, np.int32)
    lookup[:settled] = np.arange(settled, dtype=np.int32)
    used = np.zeros(len(names), np.bool_)
    used[target] = True
    rows = np.flatnonzero(used[settled:]) + settled
    texts = [names[i] for i in rows.tolist()]
    lookup[rows] = np.fromiter((known.get(text, MISSING) if text else NONE for text in texts), np.int32, len(texts))
    column = lookup[target]
    return column, _dangling(np.flatnonzero(column == MISSING).astype(np.int32), target, names)


def _dangling(rows: Int32, target: Int32, names: Sequence[str]) -> Dangling:
    missing = target[rows]
    distinct, inverse = np.unique(missing, return_inverse=True)
    texts = [names[i] for i in distinct.tolist()]
    order = sorted(set(texts))
    rank = dict(zip(order, range(len(order)), strict=True))
    ranks = np.fromiter((rank[text] for text in texts), np.int32, len(texts))
    return Dangling(rows, ranks[inverse].astype(np.int32).reshape(-1), tuple(order))


def unresolve(column: Int32, known: Sequence[str], dangling: Dangling) -> tuple[Int32, list[str]]:
    """Undo `resolve`: return (int32[P] into names; names: the known ones, the missing ones, "")."""
    names = [*known, *dangling.names, ""]
    target = np.where(column == NONE, np.int32(len(names) - 1), column)
    target[dangling.row] = dangling.name + np.int32(len(known))
    return target, names
