"""Texts of the report by node, and members of the contract's enumerations for numbers in arrays.

Most texts are equal or empty: nodes have indices into a list of the distinct texts.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, cast

import numpy as np

from trimtab.planner.snapshot.columns import Int32, UInt8
from trimtab.v1 import reason_pb2

_BLOCKING: Final = frozenset(reason_pb2.BlockingPodReason.Code.values())
_BLOCKING_CODE: Final = np.full(256, reason_pb2.BlockingPodReason.UNEXPECTED_ERROR, np.uint8)
_BLOCKING_CODE[list(_BLOCKING)] = list(_BLOCKING)
_UNREMOVABLE: Final = {number: name for name, number in reason_pb2.UnremovableReason.Code.items()}


def blocking_code(number: int) -> "reason_pb2.BlockingPodReason.Code.ValueType":
    """Return a `BlockingPodReason.Code`; UNEXPECTED_ERROR for a number that is none."""
    if number not in _BLOCKING:
        return reason_pb2.BlockingPodReason.UNEXPECTED_ERROR
    return cast("reason_pb2.BlockingPodReason.Code.ValueType", number)


def blocking_codes(numbers: UInt8) -> UInt8:
    """Return the same for an array. uint8."""
    return _BLOCKING_CODE[numbers]


def unremovable_name(number: int) -> str:
    """Return the name of an `UnremovableReason.Code`; "UNSPECIFIED" for a number that is none."""
    return _UNREMOVABLE.get(cast("reason_pb2.UnremovableReason.Code.ValueType", number), "UNSPECIFIED")


class NodeTexts:
    """A text for each of N nodes, initially ""; later texts replace earlier ones."""

    def __init__(self, node_count: int) -> None:
        self._texts = [""]
        self._number = np.zeros(node_count, np.int32)

    def put(self, nodes: Int32, texts: Iterable[str]) -> None:
        """Set the text of each of nodes : int32[K]. O(K)."""
        first = len(self._texts)
        self._texts.extend(texts)
        self._number[nodes] = np.arange(first, len(self._texts), dtype=np.int32)

    def put_shared(self, nodes: Int32, texts: Sequence[str], of: Int32) -> None:
        """Set the text of nodes[i] to texts[of[i]]. nodes, of : int32[K]. O(K + texts), vectorised over K."""
        first = len(self._texts)
        self._texts.extend(texts)
        self._number[nodes] = of + first

    def put_one(self, nodes: Int32, text: str) -> None:
        """Set one text for all nodes; an empty one replaces nothing."""
        if text:
            self.put_shared(nodes, [text], np.zeros(len(nodes), np.int32))

    def of(self, nodes: Int32) -> tuple[str, ...]:
        """Return the texts of nodes : int32[K]."""
        if len(nodes) < 2:  # `itemgetter` returns no tuple
            return tuple(self._texts[self._number[node]] for node in nodes)
        found: tuple[str, ...] = itemgetter(*self._number[nodes].tolist())(self._texts)
        return found


class Blocking(NamedTuple):
    """The blocking pods of nodes. pods : of each node, "namespace/name"; why : uint8[N] `BlockingPodReason.Code`."""

    pods: NodeTexts
    why: UInt8
