"""Pods named "namespace/name" among the sorted pods of a snapshot. O(keys * log P) comparisons, in a kernel."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from planner.snapshot.dictionaries import offsets_of
from planner.snapshot.kernels import text as kernels


def find_pods(snapshot: Snapshot, keys: Sequence[str]) -> tuple[Int64, Bool]:
    """Return (row : int64[C], found : bool[C]); where a pod is not found, the row means nothing."""
    split = [key.partition("/") for key in keys]
    names = [name.encode() for _, _, name in split]
    rank = {namespace: _rank(snapshot.strings, namespace) for namespace in {one[0] for one in split}}
    namespace = np.fromiter((rank[one[0]] for one in split), np.int32, len(keys))
    sizes = np.fromiter(map(len, names), np.int32, len(keys))
    wanted = kernels.Keys(namespace, np.frombuffer(b"".join(names), np.uint8).copy(), offsets_of(sizes))
    return locate(keys_of(snapshot, snapshot.pods.namespace), wanted)


def _rank(strings: Sequence[str], text: str) -> int:
    """Return the index of a string among sorted ones, or -1."""
    place = bisect_left(strings, text)
    return place if place < len(strings) and strings[place] == text else -1


def keys_of(snapshot: Snapshot, namespace: Int32) -> kernels.Keys:
    """Return the keys of a snapshot's pods, the namespaces as numbered by the caller."""
    return kernels.Keys(namespace, snapshot.pods.name.data, snapshot.pods.name.offsets)


def locate(keys: kernels.Keys, wanted: kernels.Keys) -> tuple[Int64, Bool]:
    """Return (first row not smaller than each wanted key : int64[C], whether it is equal : bool[C])."""
    count = len(wanted.namespace)
    position, found = np.empty(count, np.int64), np.empty(count, np.bool_)
    kernels.locate(keys, wanted, position, found)
    return position, found
