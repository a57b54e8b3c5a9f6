"""What a snapshot has in common with the one that it was made from: the very same objects, so that `is` can tell.

Decides nothing about content: a field or column that is equal, bit by bit, becomes that of the base. So after a delta

- every field of `Snapshot` but `version`, every column of its pods, nodes, templates and label sets, and every text
  either *is* the base's or differs from it;
- a whole table (`snapshot.nodes`, `snapshot.pods`) is the base's where all its columns are;
- memory is taken once for what is the same.

Equal means equal in canonical numbers too: a column of indices that is the base's says the same only together with the
dictionary that it points into (`pods.spec` with `specs`), so whoever reuses something derived from both checks both.
Cost: one comparison of the columns, some 2 ms at 150,000 pods.
"""

from typing import Any

import numpy as np

from planner.snapshot.columns import Snapshot

_EARLY = 4096


def share(base: Snapshot, snapshot: Snapshot) -> Snapshot:
    """Return `snapshot` with the base's objects wherever they are equal."""
    shared: Snapshot = _share(base, snapshot)
    return shared


def _share(old: Any, new: Any) -> Any:
    if new is old:
        return old
    if isinstance(new, np.ndarray):
        return old if _equal(old, new) else new
    if hasattr(new, "_fields"):
        fields = [_share(one, other) for one, other in zip(old, new, strict=True)]
        same = all(one is other for one, other in zip(fields, old, strict=True))
        return old if same else type(new)._make(fields)
    # Rows are compared by identity first, so what a delta has not touched costs a pointer each.
    return old if type(old) is type(new) and old == new else new


def _equal(old: Any, new: Any) -> bool:
    """Bit by bit, type and shape too. Columns that differ most often differ early."""
    if old.dtype != new.dtype or old.shape != new.shape:
        return False
    return bool((old[:_EARLY] == new[:_EARLY]).all()) and bool((old == new).all())
