"""Texts as bytes, and the names of pods."""

from collections.abc import Sequence

import numpy as np

from trimtab.planner.snapshot.columns import Int32, Int64, Snapshot, UInt8


def joined(texts: Sequence[str]) -> tuple[UInt8, Int64]:
    """Return concatenated texts: their bytes, and int64[texts + 1] the start of each."""
    data = "".join(texts).encode()
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    if lengths.sum() != len(data):
        # Some character takes more than one byte.
        lengths = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    # A copy, so that kernels see a writable array.
    return np.frombuffer(data, np.uint8).copy(), offsets


def pod_keys(snapshot: Snapshot, pods: Int64 | Int32) -> list[str]:
    """Return "namespace/name" of each of pods : integers [n]. O(bytes of all names), or O(n) for few pods."""
    column, strings = snapshot.pods.name, snapshot.strings
    if 16 * len(pods) < len(snapshot.pods.spec):
        return [snapshot.pod_key(pod) for pod in pods.tolist()]
    # A character for each byte, so that offsets hold.
    text = column.data.tobytes().decode("latin-1")
    rows = zip(column.offsets[pods].tolist(), column.offsets[pods + 1].tolist(), strict=True)
    names = [text[first:last] for first, last in rows]
    if not text.isascii():
        names = [name.encode("latin-1").decode() for name in names]
    spaces = snapshot.pods.namespace[pods].tolist()
    return [f"{strings[space]}/{name}" for space, name in zip(spaces, names, strict=True)]
