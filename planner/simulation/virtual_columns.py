"""Columns of a simulation that only virtual nodes have.

Contract: pure; depends only on the virtual rows. Virtual nodes follow the real ones in the order given.
"""

import numpy as np

from trimtab.planner.simulation.state import CLOSED, OPEN, VirtualNodeColumns
from trimtab.planner.simulation.virtual_rows import VirtualRows
from trimtab.planner.snapshot.columns import Int32, UInt8


def node_states(virtual: VirtualRows, real: int) -> UInt8:
    """Return the initial state of each node : uint8[N]. real : number of nodes that are not virtual."""
    virtual_states = [np.full(len(one.names), OPEN if one.is_open else CLOSED, np.uint8) for one in virtual.nodes]
    return np.concatenate([np.full(real, OPEN, np.uint8), *virtual_states])


def virtual_node_columns(virtual: VirtualRows, real: int, resident_class: Int32) -> VirtualNodeColumns:
    """Return the columns. resident_class : int32[residents] in the order of `VirtualRows.residents`. O(N + residents).

    Each node has its own list of residents, also within a template.
    """
    count = real + virtual.node_count
    lengths = np.zeros(count, np.int64)
    parts, first, node, spare = [np.zeros(0, np.int32)], 0, real, -1
    for one in virtual.nodes:
        last = first + len(one.residents)
        lengths[node : node + len(one.names)] = len(one.residents)
        parts.append(np.tile(resident_class[first:last], len(one.names)))
        if one.is_spare and spare < 0:
            spare = node
        first, node = last, node + len(one.names)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
    resident = np.concatenate(parts).astype(np.int64)
    return VirtualNodeColumns(offsets, resident, np.full(count, -1, np.int64), np.array([spare], np.int64))
