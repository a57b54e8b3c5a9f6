"""One node filled greedily with pods of the highest value, in several ways, with plain lists and dictionaries."""

from dataclasses import dataclass, field

Fill = dict[int, int]
"""Pods by class."""


@dataclass
class Market:
    """A problem with its unplanned part. Lists by class, group, resource, zone; allowed by class and group."""

    demand: list[list[int]]
    capacity: list[list[int]]
    allowed: list[list[bool]]
    per_node: list[int]
    zone: list[int]
    cost: list[float]
    pods: list[int]
    nodes: list[int]
    zone_pods: list[list[int]] = field(default_factory=list)
    most_fills: int = 0

    def pods_that_fit(self, group: int, of_class: int, fill: Fill) -> int:
        """Return how many more pods of a class a node with a fill takes."""
        limits = [self.pods[of_class], self.per_node[of_class]]
        if self.zone[group] >= 0:
            limits.append(self.zone_pods[of_class][self.zone[group]])
        most = min(limits) - fill.get(of_class, 0)
        free = self.free(group, fill)
        return min([most, *(has // one for has, one in zip(free, self.demand[of_class], strict=True) if one > 0)])

    def free(self, group: int, fill: Fill) -> list[int]:
        """Return the free amount of each resource on a node with a fill."""
        return [
            has - sum(self.demand[of_class][at] * pods for of_class, pods in fill.items())
            for at, has in enumerate(self.capacity[group])
        ]

    def add_pods(self, value: list[float], group: int, weighting: int, fill: Fill) -> float:
        """Add pods to a fill; return their value."""
        self.most_fills += 1
        worth, weight = 0.0, self._weights(group, weighting, fill)
        while True:
            density = {}
            for of_class, takes in enumerate(self.demand):
                if self.allowed[of_class][group] and self.pods_that_fit(group, of_class, fill) > 0:
                    size = 1e-9
                    for one, its_weight in zip(takes, weight, strict=True):
                        size += one * its_weight
                    density[of_class] = value[of_class] / size
            if not density:
                return worth
            best = max(density, key=lambda of_class: (density[of_class], -of_class))
            pods = self.pods_that_fit(group, best, fill)
            share = max([0.0, *(one * its for one, its in zip(self.demand[best], weight, strict=True))])
            if weighting == 0 and pods > 1 and share * pods > 0.25:
                pods = (pods + 1) // 2
            fill[best] = fill.get(best, 0) + pods
            worth += value[best] * pods
            if weighting == 0:
                weight = self._weights(group, weighting, fill)

    def _weights(self, group: int, weighting: int, fill: Fill) -> list[float]:
        of_all = self.capacity[group] if weighting else self.free(group, fill)
        return [(8.0 if weighting == at + 2 else 1.0) / has if has > 0 else 0.0 for at, has in enumerate(of_all)]


def filled(market: Market, value: list[float], group: int, weightings: int) -> tuple[float, Fill]:
    """Return the best fill of the first ways, with its value."""
    best: tuple[float, Fill] = (-1.0, {})
    for weighting in range(weightings):
        fill: Fill = {}
        worth = market.add_pods(value, group, weighting, fill)
        if worth > best[0]:
            best = worth, fill
    return best


def refined(market: Market, value: list[float], group: int, found: tuple[float, Fill]) -> tuple[float, Fill]:
    """Return a fill with pods exchanged for others, one pod at a time."""
    worth, best = found
    for _ in range(4):
        helped = False
        for out in range(len(market.pods)):
            if not best.get(out):
                continue
            fill = {of_class: pods - (of_class == out) for of_class, pods in best.items() if pods > (of_class == out)}
            left, market.pods[out] = market.pods[out], fill.get(out, 0)
            more = market.add_pods(value, group, 0, fill)
            market.pods[out] = left
            more = more + market.add_pods(value, group, 0, fill) - value[out]
            if more > 1e-9 * worth:
                best, worth, helped = fill, worth + more, True
        if not helped:
            break
    return worth, best
