"""The least price of machines for a few pods, exactly, by their requests alone: a candidate that a plan has to confirm,
as it knows nothing of affinity, spread, DaemonSets or labels.

Dynamic programming over sets of pods: the first pod of a set is on a node with some of the others. O(3^pods).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

MOST_PODS: Final = 12
MOST_MACHINES: Final = 64


class Bin(NamedTuple):
    """A machine that may be opened any number of times. amounts : what it offers, by resource."""

    name: str
    price: float
    amounts: Mapping[str, int]


def least_bins(bins: Sequence[Bin], requests: Sequence[Mapping[str, int]]) -> dict[str, int] | None:
    """Return how many of each bin hold all requests for the least price; None if there are too many pods or bins, or
    some pod fits none. Among equal ones the first bin by price, then name.
    """
    if not requests or len(requests) > MOST_PODS or len(bins) > MOST_MACHINES:
        return None
    cheapest = _cheapest_bins(sorted(bins, key=lambda one: (one.price, one.name)), requests)
    best: list[float] = [0.0]
    chosen: list[int] = [0]
    for pods in range(1, 1 << len(requests)):
        first = pods & -pods
        others = part = pods ^ first
        price, node = float("inf"), 0
        while True:
            bin_of = cheapest[part | first]
            if bin_of is not None and bin_of.price + best[others ^ part] < price:
                price, node = bin_of.price + best[others ^ part], part | first
            if not part:
                break
            part = (part - 1) & others
        best.append(price)
        chosen.append(node)
    if best[-1] == float("inf"):
        return None
    found: Counter[str] = Counter()
    left = (1 << len(requests)) - 1
    while left:
        bin_of = cheapest[chosen[left]]
        assert bin_of is not None  # its price is finite
        found[bin_of.name] += 1
        left ^= chosen[left]
    return dict(found)


def _cheapest_bins(bins: Sequence[Bin], requests: Sequence[Mapping[str, int]]) -> list[Bin | None]:
    """Return the first bin that holds each set of pods, by the bits of the set; None = none does."""
    resources = sorted({name for request in requests for name, amount in request.items() if amount})
    totals = [dict.fromkeys(resources, 0)]
    for row, request in enumerate(requests):
        totals += [{name: before[name] + request.get(name, 0) for name in resources} for before in totals[: 1 << row]]
    found: list[Bin | None] = []
    for pods, total in enumerate(totals):
        count = pods.bit_count()
        found.append(
            next(
                (
                    one
                    for one in bins
                    if count <= one.amounts.get("pods", 0)
                    and all(amount <= one.amounts.get(name, 0) for name, amount in total.items())
                ),
                None,
            )
        )
    return found
