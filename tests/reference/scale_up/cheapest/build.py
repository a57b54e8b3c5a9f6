"""Nodes planned one after the other, the one worth most for its price first, each as often as it can be repeated."""

from tests.reference.scale_up.cheapest.fill import Fill, Market, filled

Batch = tuple[int, int, Fill]
"""Group, nodes, pods by class on each."""
ALL = 1 << 40


def built(market: Market, value: list[float], groups: list[int], ways: int) -> list[Batch]:
    """The batches planned; the market's pods, nodes and zones are lowered."""
    ratio = [_ratio(market, value, group, ways)[0] for group in groups]
    batches: list[Batch] = []
    while (best := max(ratio, default=-1.0)) >= 0.0:
        at = ratio.index(best)
        ratio[at], fill = _ratio(market, value, groups[at], ways)
        rival = max([one for place, one in enumerate(ratio) if place != at], default=-1.0)
        if ratio[at] >= 0.0 and (rival < 0.0 or ratio[at] >= 0.95 * rival):
            batches += taken(market, groups, groups[at], fill, ALL)
    return batches


def _ratio(market: Market, value: list[float], group: int, ways: int) -> tuple[float, Fill]:
    """Worth for price of a node filled anew; worth is kept from before where others are asked meanwhile."""
    if market.nodes[group] <= 0:
        return -1.0, {}
    worth, fill = filled(market, value, group, ways)
    return (worth / market.cost[group], fill) if any(fill.values()) else (-1.0, {})


def taken(market: Market, groups: list[int], group: int, fill: Fill, most: int) -> list[Batch]:
    """The batch of as many nodes as can have a fill, of the cheapest group that holds it; none where none can."""
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
    """Count so many nodes of a batch as planned; fewer than none give back what they had."""
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
