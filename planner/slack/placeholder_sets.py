"""Sets of equal placeholders as values: the properties of each placeholder in a set, and how many there should be.

Q sets.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.simulation.virtual_rows import VirtualPod
from trimtab.planner.slack.sizes import Amounts
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1 import plan_pb2 as pb


class PlaceholderSet(NamedTuple):
    """Equal placeholders.

    name : prefix of the names of its placeholders; kind : `PlaceholderKind.Code`; pod : each of them as a pod for
    scheduling; number : how many there should be; size : by resource; for_object : "Kind/namespace/name" or ""; pool :
    the requesting pool, "" = the whole cluster; is_gang : all of them have nodes or none; topology_key : label of which
    all these nodes have the same value, "" = none.
    """

    name: str
    kind: "pb.PlaceholderKind.Code.ValueType"
    pod: VirtualPod
    number: int
    size: Amounts
    for_object: str = ""
    pool: str = ""
    is_gang: bool = False
    topology_key: str = ""


class SizeColumns(NamedTuple):
    """Sizes of sets as columns. resources : names, each once; amounts : int64[Q, resources], 0 = none."""

    resources: tuple[str, ...]
    amounts: Int64

    def of(self, resource: str) -> Int64:
        """Return the amounts of one resource : int64[Q]."""
        if resource not in self.resources:
            return np.zeros(len(self.amounts), np.int64)
        column: Int64 = self.amounts[:, self.resources.index(resource)]
        return column

    def taken(self, rows: Int64) -> "SizeColumns":
        """Return the sizes of some sets : int64[n]."""
        return SizeColumns(self.resources, self.amounts[rows])

    def together(self, number: Sequence[int]) -> dict[str, int]:
        """Return the total request of the given number of placeholders of each set, by resource; it may
        exceed 64 bits.
        """
        columns = zip(self.resources, self.amounts.T.tolist(), strict=True)
        totals = {name: sum(map(int.__mul__, column, number)) for name, column in columns}
        return {name: total for name, total in totals.items() if total}

    def and_of(self, other: "SizeColumns") -> "SizeColumns":
        """Return these sizes with those of other sets appended."""
        resources = tuple(dict.fromkeys((*self.resources, *other.resources)))
        amounts = np.zeros((len(self.amounts) + len(other.amounts), len(resources)), np.int64)
        amounts[: len(self.amounts), : len(self.resources)] = self.amounts
        amounts[len(self.amounts) :, [resources.index(name) for name in other.resources]] = other.amounts
        return SizeColumns(resources, amounts)


def size_columns(sets: Sequence[PlaceholderSet]) -> SizeColumns:
    """Return the sizes of sets as columns. O(sets)."""
    resources = tuple(dict.fromkeys(name for one in sets for name in one.size))
    rows = [[one.size.get(name, 0) for name in resources] for one in sets]
    return SizeColumns(resources, np.array(rows, np.int64).reshape(len(sets), len(resources)))
