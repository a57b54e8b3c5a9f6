"""Nodes planned one by one, the one with the highest value for its price first, each repeated as often as possible."""

from tests.reference.cheapest.fill import Fill, Market, filled

Batch = tuple[int, int, Fill]
"""Group, nodes, pods by class on each."""
ALL = 1 << 40


def built(market: Market, value: list[float], groups: list[int], weightings: int) -> list[Batch]:
    """Return the planned batches; reduces the market's pods, nodes and zones."""
    ratio = [_ratio(market, value, group, weightings)[0] for group in groups]
    batches: list[Batch] = []
    while (best := max(ratio, default=-1.0)) >= 0.0:
        at = ratio.index(best)
        ratio[at], fill = _ratio(market, value, groups[at], weightings)
        rival = max([one for place, one in enumerate(ratio) if place != at], default=-1.0)
        if ratio[at] >= 0.0 and (rival < 0.0 or ratio[at] >= 0.95 * rival):
            batches += taken(market, groups, groups[at], fill, ALL)
    return batches


def _ratio(market: Market, value: list[float], group: int, weightings: int) -> tuple[float, Fill]:
    """Return the value per price of a newly filled node; the earlier value is kept while others are checked."""
    if market.nodes[group] <= 0:
        return -1.0, {}
    worth, fill = filled(market, value, group, weightings)
    return (worth / market.cost[group], fill) if any(fill.values()) else (-1.0, {})


def taken(market: Market, groups: list[int], group: int, fill: Fill, most: int) -> list[Batch]:
    """Return the largest possible batch of nodes with a fill, of the cheapest group that holds it; [] if none can."""
    holders = [other for other in groups if market.nodes[other] > 0 and _holds(market, other, fill)]
    group = min([group, *holders], key=lambda other: market.cost[other])
    zone, nodes = market.zone[group], min(market.nodes[group], most)
    for of_class, pods in fill.items():
        if pods:
            nodes = min(nodes, market.pods[of_class] // pods)
            if zone >= 0:
                nodes = min(nodes, market.zone_pods[of_class][zone] // pods)
    fill = {of_class: fill[of_class] for of_class in sorted(fill) if fill[of_class]}
    if nodes <= 0 or not fill:
        return []
    move(market, (group, nodes, fill), nodes)
    return [(group, nodes, fill)]


def move(market: Market, batch: Batch, nodes: int) -> None:
    """Count nodes of a batch as planned; a negative number releases them."""
    group, _, fill = batch
    market.nodes[group] -= nodes
    for of_class, pods in fill.items():
        market.pods[of_class] -= nodes * pods
        if market.zone[group] >= 0:
            market.zone_pods[of_class][market.zone[group]] -= nodes * pods


def _holds(market: Market, group: int, fill: Fill) -> bool:
    zone = market.zone[group]
    return min(market.free(group, fill)) >= 0 and all(
        market.allowed[of_class][group] and (zone < 0 or market.zone_pods[of_class][zone] >= pods)
        for of_class, pods in fill.items()
        if pods
    )
