"""A few nodes removed from a plan and their pods planned again if that is cheaper, many times."""

from tests.reference.cheapest.build import Batch, built, move
from tests.reference.cheapest.fill import Market


class Numbers:
    """The sequence of pseudo-random numbers."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, below: int) -> int:
        self.number = self.number * 48271 % 2147483647
        return self.number % below


def improved(
    market: Market, value: list[float], groups: list[int], most: tuple[int, int], batches: list[Batch]
) -> list[Batch]:
    """Return the improved batches, including those left without nodes; `batches` are those before.

    most : approximate number of filled nodes, and of tries.
    """
    most_fills, tries = most
    number, until = Numbers(1), market.most_fills + most_fills
    while batches and market.most_fills < until and tries > 0:
        tries -= 1
        out: list[int] = []
        for _ in range(2 + number(5)):
            first, second = number(len(batches)), number(len(batches))
            ratios = [_worth(market, value, batches[at]) / market.cost[batches[at][0]] for at in (first, second)]
            chosen = second if ratios[1] < ratios[0] else first
            if batches[chosen][1] == 0:
                chosen = first if batches[first][1] > 0 else second
            if batches[chosen][1] > 0:
                _change(market, batches, chosen, -1)
                out.append(chosen)
        stirred = [worth * (1.0 + 0.5 * (number(1000) / 1000.0)) for worth in value]
        true_cost = list(market.cost)
        if number(2) == 1:
            for group in groups:
                market.cost[group] *= 1.0 + 0.5 * (number(1000) / 1000.0)
        more = built(market, stirred, groups, 1 + number(2))
        market.cost[:] = true_cost
        cost = 0.0
        for at in out:
            cost += market.cost[batches[at][0]]
        for group, nodes, _ in more:
            cost -= nodes * market.cost[group]
        if sum(market.pods) > 0 or cost < -1e-9:
            for batch in more:
                move(market, batch, -batch[1])
            for at in out:
                _change(market, batches, at, 1)
        else:
            batches += more
    return batches


def _worth(market: Market, value: list[float], batch: Batch) -> float:
    worth = 0.0
    for of_class in sorted(batch[2]):
        worth += value[of_class] * batch[2][of_class]
    return worth


def _change(market: Market, batches: list[Batch], at: int, by: int) -> None:
    group, nodes, fill = batches[at]
    move(market, batches[at], by)
    batches[at] = group, nodes + by, fill
