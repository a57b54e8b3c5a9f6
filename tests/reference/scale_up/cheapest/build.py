"""Nodes planned one after the other, the one worth most for its price first, each as often as it can be repeated."""

from tests.reference.scale_up.cheapest.fill import Market, filled

Batch = tuple[int, int, dict[int, int]]
"""Group, nodes, pods by class on each."""


def built(market: Market, value: list[float], groups: list[int], ways: int) -> list[Batch]:
    """The batches planned; the market's pods, nodes and zones are lowered."""
    ratio = [_ratio(market, value, group, ways)[0] for group in groups]
    batches = []
    while (best := max(ratio, default=-1.0)) >= 0.0:
        at = ratio.index(best)
        ratio[at], fill = _ratio(market, value, groups[at], ways)
        others = [one for place, one in enumerate(ratio) if place != at]
        if ratio[at] >= 0.0 and ratio[at] >= max(others, default=-1.0):
            batches.append(_taken(market, groups[at], fill))
    return batches


def _ratio(market: Market, value: list[float], group: int, ways: int) -> tuple[float, dict[int, int]]:
    """Worth for price of a node filled anew; worth is kept from before where others are asked meanwhile."""
    if market.nodes[group] <= 0:
        return -1.0, {}
    worth, fill = filled(market, value, group, ways)
    return (worth / market.cost[group], fill) if fill else (-1.0, {})


def _taken(market: Market, group: int, fill: dict[int, int]) -> Batch:
    zone = market.zone[group]
    nodes = market.nodes[group]
    for of_class, pods in fill.items():
        nodes = min(nodes, market.pods[of_class] // pods)
        if zone >= 0:
            nodes = min(nodes, market.zone_pods[of_class][zone] // pods)
    market.nodes[group] -= nodes
    for of_class, pods in fill.items():
        market.pods[of_class] -= nodes * pods
        if zone >= 0:
            market.zone_pods[of_class][zone] -= nodes * pods
    return group, nodes, fill
