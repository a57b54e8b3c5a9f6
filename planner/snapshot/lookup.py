"""Rows of a snapshot found by name: strings and nodes in sorted tuples, pods by "namespace/name".

Never raises: a missing name has index -1, or `found` False.
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from trimtab.planner.snapshot.columns import Bool, Int32, Int64, Snapshot
from trimtab.planner.snapshot.dictionaries import offsets_of
from trimtab.planner.snapshot.kernels import text as kernels


def string_index(strings: Sequence[str], text: str) -> int:
    """Return the index of a string in a sorted sequence, -1 if it is missing. O(log n)."""
    at = bisect_left(strings, text)
    return at if at < len(strings) and strings[at] == text else -1


def find_pods(snapshot: Snapshot, keys: Sequence[str]) -> tuple[Int64, Bool]:
    """Return (row : int64[C], found : bool[C]) of pods "namespace/name"; a row is valid only if it was found.

    O(C log P) comparisons, in a kernel.
    """
    split = [key.partition("/") for key in keys]
    names = [name.encode() for _, _, name in split]
    rank = {namespace: string_index(snapshot.strings, namespace) for namespace in {one[0] for one in split}}
    namespace = np.fromiter((rank[one[0]] for one in split), np.int32, len(keys))
    sizes = np.fromiter(map(len, names), np.int32, len(keys))
    wanted = kernels.Keys(namespace, np.frombuffer(b"".join(names), np.uint8).copy(), offsets_of(sizes))
    return locate(keys_of(snapshot, snapshot.pods.namespace), wanted)


def keys_of(snapshot: Snapshot, namespace: Int32) -> kernels.Keys:
    """Return the keys of a snapshot's pods. namespace : int32[P], as numbered by the caller."""
    return kernels.Keys(namespace, snapshot.pods.name.data, snapshot.pods.name.offsets)


def locate(keys: kernels.Keys, wanted: kernels.Keys) -> tuple[Int64, Bool]:
    """Return (first row not smaller than each wanted key : int64[C], whether it is equal : bool[C])."""
    count = len(wanted.namespace)
    position, found = np.empty(count, np.int64), np.empty(count, np.bool_)
    kernels.locate(keys, wanted, position, found)
    return position, found
