"""Fractions of the linear programme rounded to whole nodes; the rest is solved again."""

from tests.reference.cheapest.build import Batch, taken
from tests.reference.cheapest.fill import Market
from tests.reference.cheapest.generate import Search, generated
from tests.reference.cheapest.master import Programme


def dived(market: Market, programme: Programme, search: Search, round_up_from: float, solutions: int) -> list[Batch]:
    """Return the planned batches."""
    batches: list[Batch] = []
    for solved in range(solutions):
        found: list[Batch] = []
        fractions = {}
        for row, column in enumerate(programme.basis):
            fill, level = column - programme.first_fill(), programme.level[row]
            if fill < 0 or level <= 1e-2:
                continue
            if level >= 1.0 - 1e-2:
                found += _planned(market, programme, search, fill, int(level + 1e-2))
            elif level >= round_up_from:
                found += _planned(market, programme, search, fill, 1)
            else:
                fractions[row] = level
        if not found and fractions:
            row = max(fractions, key=lambda row: (fractions[row], -row))
            found += _planned(market, programme, search, programme.basis[row] - programme.first_fill(), 1)
        if not found:
            break
        batches += found
        if solved + 1 < solutions:
            for group, row in enumerate(search.limit_row):
                if row >= 0:
                    programme.bound[row] = float(market.nodes[group])
            programme.bound[: programme.classes] = map(float, market.pods)
            programme.reset_basis()
            search.weighting = 0
            generated(market, programme, search, 32)
    return batches


def _planned(market: Market, programme: Programme, search: Search, number: int, most: int) -> list[Batch]:
    group, entries = programme.fills[number]
    fill: dict[int, int] = {}
    for of_class, pods in entries.items():
        if of_class < programme.classes and market.pods[of_class] > 0:
            fill[of_class] = min(market.pods_that_fit(group, of_class, fill), int(pods))
    market.add_pods(search.value, group, 0, fill)
    return taken(market, search.groups, group, fill, most) if market.nodes[group] > 0 else []
