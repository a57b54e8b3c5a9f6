"""Numbers in the annotations of pods, as columns sorted by pod and key. Decides their order and the value for invalid
numbers; checks each column. Raises SnapshotError with the row of the message.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.snapshot.checks import SnapshotError, check_index, read_column
from trimtab.planner.snapshot.columns import Float64, Int32, Int64
from trimtab.v1 import snapshot_pb2 as pb

TABLE: Final = "pods"
NO_NUMBER: Final = np.inf
"""Value for an annotation that is not a number. Unlike NaN it equals itself, so equal columns compare equal."""


class PodNumbers(NamedTuple):
    """One entry per pod and key, ascending. pod, key : int32[A]; value : float64[A] or NO_NUMBER."""

    pod: Int32
    key: Int32
    value: Float64


def number_keys(table: pb.PodTable, strings: Sequence[str]) -> Int32:
    """Return the column of keys, checked, in the message's strings."""
    count = len(table.number_pod) // 4
    keys = read_column(table.number_key, np.int32, count, TABLE, "number_key")
    check_index(keys, len(strings), TABLE, "number_key", "strings")
    for key in np.unique(keys).tolist():
        if not strings[key]:
            row = int(np.flatnonzero(keys == key)[0])
            raise SnapshotError(TABLE, row, "number_key", "it is empty; name the annotation")
    return keys


def read_numbers(table: pb.PodTable, strings: Sequence[str], moved: Int32, order: Int64 | None) -> PodNumbers:
    """Return the numbers. moved : int32[strings], their canonical numbers; order : int64[P] new row to old one."""
    keys = number_keys(table, strings)
    pod = read_column(table.number_pod, np.int32, len(keys), TABLE, "number_pod")
    check_index(pod, table.count, TABLE, "number_pod", "pods")
    value = read_column(table.number, np.float64, len(keys), TABLE, "number")
    value[~np.isfinite(value)] = NO_NUMBER
    # Turns -0.0 into 0.0: equal content has equal bytes.
    value += 0.0
    if order is not None:
        rank = np.empty(table.count, np.int32)
        rank[order] = np.arange(table.count, dtype=np.int32)
        pod = rank[pod]
    return sorted_numbers(PodNumbers(pod, moved[keys], value))


def sorted_numbers(numbers: PodNumbers) -> PodNumbers:
    """Return the entries ascending by pod and key. Refuses a key that a pod has twice."""
    place = (numbers.pod.astype(np.int64) << 32) | numbers.key
    order = np.argsort(place, kind="stable")
    twice = np.flatnonzero(np.diff(place[order]) == 0)
    if len(twice):
        row = int(order[twice[0] + 1])
        raise SnapshotError(TABLE, row, "number_key", "the pod has this annotation twice; give it once")
    return PodNumbers(numbers.pod[order], numbers.key[order], numbers.value[order])
