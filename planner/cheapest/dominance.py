"""Offers of nodes that no plan needs because others are at least as good in everything. Pure."""

import numpy as np

from trimtab.planner.snapshot.columns import Bool, Float64, Int64, UInt8


def undominated(price: Float64, capacity: Int64, kind: Int64, may_win: Bool) -> Int64:
    """Return the positions, ascending, of offers for which no other one of the same kind has no less of any amount and
    costs no more. price : float64[O]; capacity : int64[O, R]; kind : int64[O], offers of one kind admit the same pods;
    may_win : bool[O], others may be left out for this one. Of equals the first stays. O(O^2 · R)."""
    order = np.lexsort((np.arange(len(price)), *-capacity.T, price))
    capacity, kind, may_win = capacity[order], kind[order], may_win[order]
    stays = np.ones(len(order), bool)
    for at in np.flatnonzero(may_win).tolist():
        if stays[at]:
            rest = np.flatnonzero(stays[at + 1 :]) + at + 1
            stays[rest] = (kind[rest] != kind[at]) | (capacity[rest] > capacity[at]).any(axis=1)
    return np.sort(order[stays]).astype(np.int64)


def alike(columns: Bool | UInt8) -> Int64:
    """Return a number for each row, the same for equal ones. columns : bool[K, C] or uint8[K, C]. int64[K]."""
    if not columns.shape[1]:
        return np.zeros(len(columns), np.int64)
    packed = np.ascontiguousarray(np.packbits(columns, axis=1) if columns.dtype == np.bool_ else columns)
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).reshape(-1)
    return np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
