"""The pods of a recording, round by round: where they are and what they request, as columns.

Decides what counts: pods that have not ended; those without node wait. Amounts: cpu in milli-cores, memory in bytes.
"""

from collections.abc import Container, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.common.deltas.pod_columns import Texts
from trimtab.v1 import snapshot_pb2 as pb

_ENDED = (pb.PodPhase.SUCCEEDED, pb.PodPhase.FAILED)
_NOWHERE = -1
"""Place of an ended pod, and of a row that is not used."""
_WAITS = 0


class Usage(NamedTuple):
    """Pods of a round. cpu, memory : requested on nodes that exist; pods : all, ended ones too; pending : of them."""

    cpu: int
    memory: int
    pods: int
    pending: int


class Pods:
    """The present pods. Memory: proportional to the most pods that existed at a time. Raises ValueError, IndexError,
    KeyError for messages that break the contract.
    """

    def __init__(self) -> None:
        self._row_of: dict[tuple[str, bytes], int] = {}
        self._free: list[int] = []
        self._size = 0
        self._place: NDArray[np.int64] = np.zeros(0, np.int64)
        self._requests: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        # Number of each node's name, from 1.
        self._numbers: dict[str, int] = {"": _WAITS}
        self._names = [""]

    def add(self, changed: pb.ClusterSnapshot) -> None:
        """Put the pods of a message in, or in place of those with the same names."""
        table = changed.pods
        if not table.count:
            return
        names = Texts.of(table.names, np.frombuffer(table.name_lengths, "<i4")).take(np.arange(table.count))
        namespaces = np.frombuffer(table.namespace, "<i4").tolist()
        keys = ((changed.strings[namespace], name) for namespace, name in zip(namespaces, names, strict=True))
        rows = np.array([self._row(key) for key in keys], np.int64)
        self._grow()
        ended = np.isin(np.frombuffer(table.phase, np.uint8), _ENDED)
        self._place[rows] = np.where(ended, _NOWHERE, self._places(changed))
        self._requests[rows] = _requests(changed)[np.frombuffer(table.spec, "<i4")]

    def remove(self, keys: Iterable[str]) -> None:
        """Take pods out, by "namespace/name"."""
        for key in keys:
            namespace, _, name = key.partition("/")
            row = self._row_of.pop((namespace, name.encode()))
            self._place[row] = _NOWHERE
            self._free.append(row)

    def node_of(self, namespace: str, name: str) -> str:
        """Return the node of a pod; "" = there is no such pod, or it is on none."""
        row = self._row_of.get((namespace, name.encode()))
        place = _NOWHERE if row is None else int(self._place[row])
        return self._names[place] if place > _WAITS else ""

    def usage(self, nodes: Container[str]) -> Usage:
        """Return what pods request on existing nodes, and how many wait. O(pods), vectorized."""
        exists = np.array([name in nodes for name in self._names], np.bool_)
        place = self._place[: self._size]
        counted = exists[np.maximum(place, _WAITS)]
        cpu, memory = self._requests[: self._size][counted].sum(axis=0).tolist()
        return Usage(cpu, memory, len(self._row_of), int((place == _WAITS).sum()))

    def _row(self, key: tuple[str, bytes]) -> int:
        row = self._row_of.get(key)
        if row is None:
            row = self._free.pop() if self._free else self._size
            self._size = max(self._size, row + 1)
            self._row_of[key] = row
        return row

    def _grow(self) -> None:
        missing = self._size - len(self._place)
        if missing > 0:
            more = max(missing, len(self._place))
            self._place = np.concatenate((self._place, np.full(more, _NOWHERE, np.int64)))
            self._requests = np.concatenate((self._requests, np.zeros((more, 2), np.int64)))

    def _places(self, changed: pb.ClusterSnapshot) -> NDArray[Any]:
        """Return the number of each pod's node."""
        distinct, inverse = np.unique(np.frombuffer(changed.pods.node, "<i4"), return_inverse=True)
        numbers = []
        for index in distinct.tolist():
            name = changed.strings[index] if index else ""
            number = self._numbers.setdefault(name, len(self._numbers))
            if number == len(self._names):
                self._names.append(name)
            numbers.append(number)
        return np.array(numbers, np.int64)[inverse]


def _requests(changed: pb.ClusterSnapshot) -> NDArray[np.int64]:
    """Return cpu and memory of each spec : int64[S, 2]."""
    column = {name: at for at, name in enumerate(("cpu", "memory"))}
    found = np.zeros((len(changed.pod_specs), 2), np.int64)
    for row, spec in enumerate(changed.pod_specs):
        for request in spec.requests:
            at = column.get(changed.resources[request.resource])
            if at is not None:
                found[row, at] = request.amount
    return found
