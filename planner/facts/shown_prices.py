"""Prices for what people see: those of the snapshot or, if it has none, assumed ones by cpu and memory. No decision
rests on assumed prices; known and assumed ones are never added.
"""

from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import prices
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import Float64, Int64, Snapshot
from trimtab.prices import ASSUMED_PER_CORE, ASSUMED_PER_GIB

ASSUMPTION: Final = f"assumed: {ASSUMED_PER_CORE:g} a core and {ASSUMED_PER_GIB:g} a GiB of memory an hour"
_RATES: Final = {"cpu": ASSUMED_PER_CORE / 1000, "memory": ASSUMED_PER_GIB / (1 << 30)}


class ShownPrices(NamedTuple):
    """Prices per hour, NaN = unknown. node : float64[N]; group : float64[G] of a new node; assumption : "" = none."""

    node: Float64
    group: Float64
    assumption: str


class ShownPricesKey(SnapshotKey[ShownPrices]):
    """The prices to show."""


def shown_prices(snapshot: Snapshot) -> ShownPrices:
    """Return the prices to show. O(N + G)."""
    node = prices(snapshot)
    group = np.array([one.price_per_hour for one in snapshot.groups], np.float64)
    known = node if len(node) else group
    if not len(known) or not np.isnan(known).all():
        return ShownPrices(node, group, "")
    return ShownPrices(_rated(snapshot, snapshot.nodes.allocatable), _of_new_nodes(snapshot), ASSUMPTION)


def _rated(snapshot: Snapshot, allocatable: Int64) -> Float64:
    """Return the prices of nodes by what they offer, rounded to millionths. allocatable : int64[M, R]. float64[M]."""
    rates = np.array([_RATES.get(name, 0.0) for name in snapshot.resources], np.float64)
    found: Float64 = np.round((allocatable * rates).sum(axis=1), 6)
    return found


def _of_new_nodes(snapshot: Snapshot) -> Float64:
    """Return the price of a new node of each group: by its template, else its nodes' mean, else NaN. float64[G]."""
    count = len(snapshot.groups)
    group, price = snapshot.nodes.group, _rated(snapshot, snapshot.nodes.allocatable)
    ours = group >= 0
    number = np.bincount(group[ours], minlength=count)
    mean = np.full(count, np.nan)
    np.divide(np.bincount(group[ours], price[ours], count), number, out=mean, where=number > 0)
    of_template = _rated(snapshot, snapshot.templates.allocatable)
    for row, one in enumerate(snapshot.groups):
        if one.template >= 0 and of_template[one.template] > 0:
            mean[row] = of_template[one.template]
    return np.round(mean, 6)
