"""`minValues` of a NodePool: what a new node may be planned to hold, so that enough other machines could hold it too.

Karpenter adds a pod to a new node only while the instance types that could hold all its pods have at least so many
values of a label. So of each offering, only that much is planned with which at least so many values of the label have
an offering for: those that have most of what this one has, by the scarcest resource. Whatever fits into the least
amounts of these fits them all. Pods that choose a zone, a type or another label of machines themselves may narrow the
choice further, which only Karpenter checks. Pure. Source: Karpenter,
pkg/controllers/provisioning/scheduling/nodeclaim.go (filterInstanceTypesByRequirements).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.common.kubernetes.kinds.metadata import Quantities
from trimtab.common.kubernetes.quantities import counted_amount
from trimtab.common.objects.karpenter.offers import MachineOffer, is_of_machines
from trimtab.common.objects.karpenter.requirements import LabelRule, PoolRules

_NONE = -1


class TooFewValues(NamedTuple):
    """A requirement that no new node can satisfy. value_count : how many values there are."""

    rule: LabelRule
    value_count: int


def too_few_values(rules: PoolRules, allowed: Sequence[MachineOffer]) -> list[TooFewValues]:
    """Return the requirements for which a pool's offerings have too few values, in order."""
    found = []
    for rule in rules.diverse:
        of_offers = {offer.labels[rule.key] for offer in allowed if rule.key in offer.labels}
        count = len(of_offers if is_of_machines(rule.key) else rules.values_of(rule.key))
        if count < rule.min_values:
            found.append(TooFewValues(rule, count))
    return found


def with_min_values(rules: PoolRules, allowed: Sequence[MachineOffer]) -> list[MachineOffer]:
    """Return offerings with what new nodes may be planned to hold as their allocatable amounts. The offerings must have
    enough values. O(A * T * R) for T offerings that differ in amounts or in these labels, of which A in amounts, and R
    resources."""
    keys = [rule.key for rule in rules.diverse if is_of_machines(rule.key)]
    least = [rule.min_values for rule in rules.diverse if is_of_machines(rule.key)]
    if not keys:
        return list(allowed)
    row_of: dict[tuple[object, ...], int] = {}
    of_offer = [
        row_of.setdefault((tuple(sorted(one.allocatable.items())), *(one.labels.get(key) for key in keys)), len(row_of))
        for one in allowed
    ]
    examples = dict(zip(reversed(of_offer), reversed(allowed), strict=True))
    distinct = [examples[row] for row in range(len(row_of))]
    resources = sorted({name for one in distinct for name in one.allocatable})
    amounts = np.array([[_amount(one.allocatable, name) for name in resources] for one in distinct], np.int64)
    held = amounts.copy()
    for key, count in zip(keys, least, strict=True):
        held = np.minimum(held, _held_by(amounts, _codes(distinct, key), count))
    reduced = [_quantities(one, resources, held[row], amounts[row]) for row, one in enumerate(distinct)]
    return [one._replace(allocatable=reduced[row]) for one, row in zip(allowed, of_offer, strict=True)]


def _amount(quantities: Mapping[str, object], resource: str) -> int:
    """Return what the scheduler counts; 0 for what is no quantity, which is said where the offering is read."""
    try:
        return max(counted_amount(resource, quantities.get(resource, 0)), 0)
    except ValueError:
        return 0


def _codes(offers: Sequence[MachineOffer], key: str) -> NDArray[np.int64]:
    """Return the value of a label of each offering as a number, _NONE = it has none. int64[T]."""
    number: dict[str, int] = {}
    values = [one.labels.get(key) for one in offers]
    return np.array([_NONE if one is None else number.setdefault(one, len(number)) for one in values], np.int64)


def _held_by(amounts: NDArray[np.int64], code: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return of each offering what `count` values of a label have offerings for. amounts : int64[T, R]; code :
    int64[T]. int64[T, R]."""
    rows = np.flatnonzero(code != _NONE)
    others, code = amounts[rows], code[rows]
    distinct, of = np.unique(amounts, axis=0, return_inverse=True)
    held = distinct.copy()
    for row, own in enumerate(distinct):
        has = own > 0
        whole = (others[:, has] >= own[has]).all(axis=1)
        seen = np.zeros(int(code.max(initial=_NONE)) + 1, np.bool_)
        seen[code[whole]] = True
        if np.count_nonzero(seen) >= count:
            # Enough values have all of it, whichever they are.
            continue
        share = np.minimum(others[:, has] / own[has], 1.0).min(axis=1, initial=1.0)
        order = np.argsort(-share, kind="stable")
        first_of_value = np.sort(np.unique(code[order], return_index=True)[1])[:count]
        held[row] = np.minimum(own, others[order[first_of_value]].min(axis=0))
    found: NDArray[np.int64] = held[of.reshape(-1)]
    return found


def _quantities(
    offer: MachineOffer, resources: Sequence[str], held: NDArray[np.int64], amounts: NDArray[np.int64]
) -> Quantities:
    """Return allocatable amounts, those that are less than the offering has written anew."""
    less = {
        name: f"{count}m" if name == "cpu" else str(count)
        for name, count, own in zip(resources, held.tolist(), amounts.tolist(), strict=True)
        if count < own
    }
    return {**offer.allocatable, **less}
