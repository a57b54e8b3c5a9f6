"""Texts by node, most of them equal or empty: indices into a list of the distinct texts. Decides nothing."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from trimtab.planner.snapshot.columns import Int32, UInt8


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
