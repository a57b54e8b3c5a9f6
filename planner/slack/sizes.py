"""How large placeholders are and how many there have to be: the formulas, on plain numbers.

Amounts are integers by resource name, cpu in milli-cores, others in base units. Requested amounts and counts are
rounded up, sizes down, so that the granularity is the number of placeholders that fit an average node. The loss of a
size by rounding, less than one unit, does not require another placeholder. The total of the placeholders is at least
the extra capacity.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from trimtab.planner.slack.settings import SlackAmount

Amounts = Mapping[str, int]
SPREAD_OUT: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources that every node has and that are divisible: each standard placeholder requests both."""
MOST: Final = 2**53
"""Largest amount of one placeholder, as for pods."""


def desired(amount: SlackAmount, capacity: int) -> int:
    """Return how much of a capacity should be kept free: its share, at least the floor, at most the ceiling."""
    # By the decimal digits of the rate: 0.1 of 30 is 3, which floating-point arithmetic does not guarantee.
    rate = Fraction(repr(amount.rate or 0.0))
    share = -(-rate.numerator * capacity // rate.denominator)
    amount_wanted = max(share, amount.floor or 0)
    return amount_wanted if amount.ceiling is None else min(amount_wanted, amount.ceiling)


def standard_shares(total: Amounts, nodes: int, granularity: int) -> dict[str, Fraction]:
    """Return the average of `nodes` nodes that have `total` together, divided by the granularity. O(resources)."""
    parts = nodes * granularity
    return {name: Fraction(amount, parts) for name, amount in total.items() if amount > 0 and parts > 0}


def rounded_down(shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Return a size in whole units: rounded down, at least 1 of each resource with a share."""
    return {name: max(int(share), 1) for name, share in shares.items()}


def count(wanted: Amounts, size: Amounts, shares: Mapping[str, Fraction] | None = None) -> int:
    """Return how many placeholders are needed for at least the requested amounts of the resources they have.

    shares : by resource, the size without rounding; a size that is a share rounded down counts as the share, so the
    total may be short by up to one unit per placeholder.
    """
    each: dict[str, Fraction | int] = {name: amount for name, amount in size.items() if amount > 0}
    each |= {name: share for name, share in (shares or {}).items() if each.get(name) == int(share)}
    # The requested amount may have been rounded up, by less than one unit.
    return max((int((amount - 1) // each[name]) + 1 for name, amount in wanted.items() if name in each), default=0)


def left(wanted: Amounts, held: Iterable[tuple[Amounts, int]]) -> dict[str, int]:
    """Return the amounts still required in addition to `held` (size, count)."""
    rest = dict(wanted)
    for size, number in held:
        rest = {name: max(amount - number * size.get(name, 0), 0) for name, amount in rest.items()}
    return rest


def capped(size: Amounts, limit: Amounts) -> dict[str, int]:
    """Return a size limited to `limit` in each resource; resources not in `limit` are not limited."""
    return {name: min(amount, limit.get(name, amount)) for name, amount in size.items()}


def damped(size: Amounts, before: Amounts | None, threshold: float) -> dict[str, int]:
    """Return the size of the last loop as long as the new one does not differ from it by more than a share."""
    if before is None or before.keys() != size.keys():
        return dict(size)
    near = all(abs(size[name] - old) <= threshold * old for name, old in before.items())
    return dict(before if near else size)


def fitted(size: Amounts, rooms: Iterable[Amounts]) -> tuple[dict[str, int], bool]:
    """Return a size that fits one of the rooms, and whether it is the given one.

    A size that does not fit is reduced to the room that has the largest part of it, the first of them. Rooms without
    one of the resources are not used; without any room the size is unchanged.
    """
    best: tuple[Fraction, dict[str, int]] | None = None
    for room in rooms:
        part = min((Fraction(min(room.get(name, 0), amount), amount) for name, amount in size.items()), default=1)
        if part == 1:
            return dict(size), True
        if part > 0 and (best is None or part > best[0]):
            best = Fraction(part), {name: min(amount, room[name]) for name, amount in size.items()}
    return (dict(size), False) if best is None else (best[1], False)


def copies(amount: str, scale: int) -> int:
    """Return how many copies an annotation requests: "3", or "20%" of `scale` (-1 = not known), rounded up.

    Raises ValueError with the problem.
    """
    text = amount.strip()
    digits = text.removesuffix("%").strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise ValueError(f'{amount!r} is neither a count, such as "3", nor a percentage, such as "20%"')
    if not text.endswith("%"):
        return int(digits)
    if scale < 0:
        raise ValueError(f"{amount!r} is a percentage of an unknown number of pods; give a count")
    return -(-int(digits) * scale // 100)


def buffered(replicas: int, percentage: int, scale: int, limit: int | None, smaller: bool) -> int:
    """Return how many pods a CapacityBuffer requests.

    replicas, percentage, scale : -1 = not given; limit : the most that its limits allow, None = no limits; smaller : of
    two counts the smaller one, the percentage rounded down, as the Cluster Autoscaler up to 1.36; else the larger one,
    rounded up, as from 1.37 on. Without replicas and percentage, the number is the most that the limits allow. Raises
    ValueError with the problem.
    """
    counts = [replicas] if replicas >= 0 else []
    if percentage >= 0:
        if scale < 0:
            raise ValueError("percentage needs a scalableRef whose number of pods is known")
        counts.append(percentage * scale // 100 if smaller else -(-percentage * scale // 100))
    if counts:
        wanted = min(counts) if smaller else max(counts)
        return wanted if limit is None else min(wanted, limit)
    if limit is None:
        raise ValueError("it has neither replicas nor percentage nor limits")
    return limit


def most_within(limits: Amounts, request: Amounts) -> int | None:
    """Return how many pods stay within limits; None if none of them limits the pods."""
    return min((amount // request[name] for name, amount in limits.items() if request.get(name, 0) > 0), default=None)
