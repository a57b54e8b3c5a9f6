"""One node filled with pods worth as much as possible, greedily, in several ways: plain lists and dictionaries."""

from dataclasses import dataclass, field


@dataclass
class Market:
    """A problem with what is still to be planned. Lists by class, group, resource, zone; allowed by class and group."""

    demand: list[list[int]]
    capacity: list[list[int]]
    allowed: list[list[bool]]
    per_node: list[int]
    zone: list[int]
    cost: list[float]
    pods: list[int]
    nodes: list[int]
    zone_pods: list[list[int]] = field(default_factory=list)

    def room(self, group: int, of_class: int, fill: dict[int, int]) -> int:
        """How many more pods of a class a node with a fill takes."""
        limits = [self.pods[of_class], self.per_node[of_class]]
        if self.zone[group] >= 0:
            limits.append(self.zone_pods[of_class][self.zone[group]])
        most = min(limits) - fill.get(of_class, 0)
        free = self.free(group, fill)
        return min([most, *(has // one for has, one in zip(free, self.demand[of_class], strict=True) if one > 0)])

    def free(self, group: int, fill: dict[int, int]) -> list[int]:
        """What a node with a fill has left of each resource."""
        return [
            has - sum(self.demand[of_class][at] * pods for of_class, pods in fill.items())
            for at, has in enumerate(self.capacity[group])
        ]


def filled(market: Market, value: list[float], group: int, ways: int) -> tuple[float, dict[int, int]]:
    """The best fill of the first ways, counted from the last, with its worth."""
    best: tuple[float, dict[int, int]] = (-1.0, {})
    last = len(market.capacity[group]) + 1
    for way in range(last, last - ways, -1):
        found = _one_way(market, value, group, way)
        if found[0] > best[0]:
            best = found
    return best


def _one_way(market: Market, value: list[float], group: int, way: int) -> tuple[float, dict[int, int]]:
    fill: dict[int, int] = {}
    worth, adaptive = 0.0, way > len(market.capacity[group])
    while True:
        of_all = market.free(group, fill) if adaptive else market.capacity[group]
        weight = [(8.0 if way == at + 1 else 1.0) / has if has > 0 else 0.0 for at, has in enumerate(of_all)]
        density = {}
        for of_class, takes in enumerate(market.demand):
            if market.allowed[of_class][group] and market.room(group, of_class, fill) > 0:
                size = 1e-12
                for one, its_weight in zip(takes, weight, strict=True):
                    size += one * its_weight
                density[of_class] = value[of_class] / size
        if not density:
            return worth, fill
        best = max(density, key=lambda of_class: (density[of_class], -of_class))
        pods = market.room(group, best, fill)
        pods = (pods + 1) // 2 if adaptive else pods
        fill[best] = fill.get(best, 0) + pods
        worth += value[best] * pods
