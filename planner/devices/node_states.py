"""All nodes at once: which of them have devices for some claims.

Nodes with equal devices of which equal ones are in use have one answer, so the search runs once for each such state and
not for each node; the rest is one array operation. Symbols: N nodes.
"""

from collections.abc import Hashable, Iterable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.devices.allocator import DeviceAllocator
from trimtab.planner.devices.demands import PreparedClaims
from trimtab.planner.devices.model import AllocatedState, DeviceError, DeviceNode, DevicesAllocated, PoolId


class DeviceAnswer(IntEnum):
    """What a node answers to claims: no devices, devices, or an error that ends the attempt to schedule the pod."""

    REFUSED = 0
    FITS = 1
    ERROR = 2


class NodeDeviceStates:
    """The states of devices of all nodes. codes : int32[N], equal for nodes in equal states; never used for another
    state again, so that `refresh` after an undo brings the earlier codes back.
    """

    def __init__(self, allocator: DeviceAllocator, nodes: Sequence[DeviceNode], state: AllocatedState) -> None:
        self._allocator = allocator
        self._nodes = tuple(nodes)
        self._known: dict[Hashable, int] = {}
        self._answers: dict[tuple[object, ...], dict[int, int]] = {}
        self._rows: dict[PoolId, list[int]] = {}
        for row, node in enumerate(nodes):
            for pool in allocator.pools_of(node):
                self._rows.setdefault(pool, []).append(row)
        self.codes = np.zeros(len(nodes), dtype=np.int32)
        self.refresh(range(len(nodes)), state)

    def rows_of(self, pools: Iterable[PoolId]) -> list[int]:
        """Return the rows of the nodes that reach some of the pools, ascending: those to refresh once their use
        changed.
        """
        return sorted({row for pool in pools for row in self._rows.get(pool, ())})

    def refresh(self, rows: Iterable[int], state: AllocatedState) -> None:
        """Look again at what is in use on some nodes. O(pools of these nodes)."""
        for row in rows:
            signature = self._allocator.signature(self._nodes[row], state)
            self.codes[row] = self._known.setdefault(signature, len(self._known))

    def answers(self, claims: PreparedClaims, state: AllocatedState) -> NDArray[np.int8]:
        """Return int8[N], a `DeviceAnswer` for each node. One search for each state that was not asked about before."""
        known = self._answers.setdefault(claims.content, {})
        codes, rows = np.unique(self.codes, return_index=True)
        of_code = np.zeros(len(self._known), dtype=np.int8)
        for code, row in zip(codes.tolist(), rows.tolist(), strict=True):
            if code not in known:
                known[code] = self._answer(row, claims, state)
            of_code[code] = known[code]
        return of_code[self.codes]

    def _answer(self, row: int, claims: PreparedClaims, state: AllocatedState) -> DeviceAnswer:
        outcome = self._allocator.allocate(self._nodes[row], claims, state)
        if isinstance(outcome, DevicesAllocated):
            return DeviceAnswer.FITS
        return DeviceAnswer.ERROR if isinstance(outcome, DeviceError) else DeviceAnswer.REFUSED
