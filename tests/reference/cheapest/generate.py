"""Fills added to the linear programme until none helps: some groups at a time, one way at a time."""

from dataclasses import dataclass

from tests.reference.cheapest.fill import Fill, Market, refined
from tests.reference.cheapest.master import Programme

STEPS, TOGETHER, ADDED = 2000, 32, 12


@dataclass
class Search:
    """The considered groups, and the state of the search for fills."""

    groups: list[int]
    limit_row: list[int]
    value: list[float]
    lane: int = 0
    weighting: int = 0
    helped: int = 0


def added(market: Market, programme: Programme, search: Search, group: int, fill: Fill) -> bool:
    """Add a fill to the programme if there is room."""
    entries = {of_class: float(fill[of_class]) for of_class in sorted(fill) if fill[of_class]}
    if search.limit_row[group] >= 0:
        entries[search.limit_row[group]] = 1.0
    return programme.add(group, market.cost[group], entries)


def generated(market: Market, programme: Programme, search: Search, most_fills: int) -> int:
    """Return the number of added fills."""
    weightings, until, total = len(market.demand[0]) + 2, market.most_fills + most_fills, 0
    parts = -(-len(search.groups) // TOGETHER)
    programme.improve(STEPS)
    _learn(programme, search, 0.0)
    while search.weighting <= weightings and market.most_fills < until:
        rows = range(search.lane, len(search.groups), parts)
        ratio = {at: _appraised(market, programme, search, search.groups[at])[0] for at in rows}
        count = 0
        for _ in range(ADDED):
            best = max(ratio, key=lambda at: (ratio[at], -at), default=-1)
            if best < 0 or ratio[best] <= 1.0 + 1e-3:
                break
            fill = _appraised(market, programme, search, search.groups[best])[1]
            ratio[best] = 0.0
            if _helps(market, programme, search, search.groups[best], fill):
                if not added(market, programme, search, search.groups[best], fill):
                    count = -1
                    break
                count += 1
        if count < 0:
            break
        if count > 0:
            programme.improve(STEPS)
        _learn(programme, search, 0.6 if count > 0 else 0.0)
        total += count
        _go_on(search, parts, count)
    programme.improve(STEPS)
    _learn(programme, search, 0.0)
    return total


def _appraised(market: Market, programme: Programme, search: Search, group: int) -> tuple[float, Fill]:
    if market.nodes[group] <= 0:
        return 0.0, {}
    price, row = market.cost[group], search.limit_row[group]
    if row >= 0:
        price -= min(programme.dual[row], 0.0)
    last, fill = len(market.demand[0]) + 2, {}
    worth = market.add_pods(search.value, group, search.weighting if search.weighting < last else 0, fill)
    if search.weighting == last:
        worth, fill = refined(market, search.value, group, (worth, fill))
    return worth / price, fill


def _helps(market: Market, programme: Programme, search: Search, group: int, fill: Fill) -> bool:
    row = search.limit_row[group]
    worth = min(programme.dual[row], 0.0) if row >= 0 else 0.0
    for of_class in sorted(fill):
        worth += programme.dual[of_class] * fill[of_class]
    return worth > market.cost[group] * (1.0 + 1e-6)


def _go_on(search: Search, parts: int, count: int) -> None:
    search.helped += count
    search.lane += 1
    if search.lane >= parts:
        search.lane = 0
        search.weighting = search.weighting + 1 if search.helped == 0 else int(search.weighting == 0)
        search.helped = 0


def _learn(programme: Programme, search: Search, steady: float) -> None:
    search.value = [
        steady * value + (1.0 - steady) * max(programme.dual[of_class], 0.0)
        for of_class, value in enumerate(search.value)
    ]
