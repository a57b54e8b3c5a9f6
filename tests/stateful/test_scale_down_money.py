"""What plans save beside the optimum of an independent mixed-integer programme, on clusters of 10 to 40 nodes by two
generators (`tests/builders/priced_clusters.py`), and beside one pass in list order. Plans are of one wave, as
the optimum is, or of ten, beside optima that can go in as many. Each plan is checked by the certificate."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pytest

from tests.builders.kubernetes import snapshot_of
from tests.builders.notes import Note
from tests.builders.priced_clusters import PricedCluster, PricedNode, Workload, mixed_pools, shrunk_fleet
from tests.builders.scale_down import Outcome, plan_message
from tests.builders.tiers import ci_but
from tests.reference.scale_down.money import most_saved
from tests.reference.scale_down.money_in_waves import goes_in_waves

GENERATORS = {"pools": mixed_pools, "fleet": shrunk_fleet}
THRESHOLDS = (1.0, 0.7, 0.5)
LIST_ORDER = {"candidateOrders": ["NAME"]}
SAMPLE = [*range(1000, 1003), *range(1004, 1012)]
"""The programme needs twelve seconds for fleet 1003."""
LARGE = range(2000, 2150)


class Saved(NamedTuple):
    """What a cluster's plans save. best : the most that the programme has found; most : no plan saves more;
    told : the answer's own bound."""

    types: int
    ours: float
    in_list_order: float
    best: float
    most: float
    told: float


def saved(make: Callable[[int], PricedCluster], seed: int) -> Saved:
    """Plan for a cluster, by default and in list order, and find the optimum."""
    cluster = make(seed)
    message, threshold = snapshot_of(*cluster.objects()), THRESHOLDS[seed % len(THRESHOLDS)]

    def decided(**more: object) -> Outcome:
        settings = {"utilizationThreshold": threshold, "maxWaves": 1, **more}
        return plan_message(message, settings)

    most, ours = most_saved(cluster, threshold), decided()
    told = ours.bound
    return Saved(
        cluster.types, ours.saving_per_hour, decided(**LIST_ORDER).saving_per_hour, most.saving, most.bound, told
    )


def measured(name: str, seeds: Iterable[int]) -> Iterator[Saved]:
    """Yield what plans of clusters save of which something can be saved."""
    for seed in seeds:
        found = saved(GENERATORS[name], seed)
        assert found.ours <= found.most * (1 + 1e-6) + 1e-9, f"{name} {seed} saves more than possible"
        assert found.ours >= found.in_list_order - 1e-9, f"{name} {seed} saves less than list order"
        assert found.told == 0 or found.told >= found.best - 1e-6, f"{name} {seed}: the bound of the answer is exceeded"
        if found.most > 0:
            yield found


@pytest.mark.ci
@pytest.mark.parametrize("name", ci_but(["pools"], GENERATORS))
def test_plans_save_nearly_the_optimum_and_never_less_than_list_order(name: str) -> None:
    found = list(measured(name, SAMPLE))
    assert len(found) >= 6
    assert np.mean([one.ours / one.most for one in found]) >= MEAN[name]
    assert all(one.ours >= LEAST * one.best for one in found)


@pytest.mark.nightly
@pytest.mark.parametrize("name", GENERATORS)
def test_many_plans_save_nearly_the_optimum_and_never_less_than_list_order(name: str, note: Note) -> None:
    found = list(measured(name, LARGE))
    ratios = np.array([one.ours / one.most for one in found])
    types = np.array([one.types for one in found])
    for number in np.unique(types).tolist():
        mine = ratios[types == number]
        note(f"{name}, {number} types: {len(mine)} clusters, mean {mine.mean():.4f}, least {mine.min():.3f}")
    assert ratios.mean() >= MEAN[name]
    assert all(one.ours >= LEAST * one.best for one in found)


def test_a_set_goes_in_waves_only_if_budgets_and_spread_hold_in_each() -> None:
    nodes = [PricedNode(f"n{at}", 4000, 8000, 1.0, "pool", zone, "", False) for at, zone in enumerate("aabb")]
    budget = Workload("w", 100, 100, "", False, 0, 1)
    one_each = PricedCluster(nodes, [budget], [(0, 0), (0, 2)], 1, {})
    moves = {(0, 1): 1, (0, 3): 1}
    assert [goes_in_waves(one_each, (0, 2), moves, waves) for waves in (1, 2)] == [False, True]
    spread = one_each._replace(workloads=[budget._replace(skew=1)], placed=[(0, 0), (0, 1), (0, 2)])
    assert goes_in_waves(spread, (0,), {(0, 3): 1}, 1)
    assert not goes_in_waves(spread._replace(placed=[(0, 0), (0, 2), (0, 3)]), (0,), {(0, 3): 1}, 9)


@pytest.mark.nightly
@pytest.mark.parametrize("name", GENERATORS)
def test_plans_of_ten_waves_save_nearly_as_much_as_optima_that_can_go_in_them(name: str, note: Note) -> None:
    ratios = []
    for seed in WAVES:
        cluster, threshold = GENERATORS[name](seed), THRESHOLDS[seed % len(THRESHOLDS)]
        most = most_saved(cluster, threshold, 6.0, MOST_WAVES)
        if most.saving > 0 and goes_in_waves(cluster, most.nodes, most.comes, MOST_WAVES):
            settings = {"utilizationThreshold": threshold, "maxWaves": MOST_WAVES}
            ours = plan_message(snapshot_of(*cluster.objects()), settings).saving_per_hour
            ratios.append(ours / most.saving)
    note(f"{name}, ten waves: {len(ratios)} clusters, mean {np.mean(ratios):.4f}, least {min(ratios):.3f}")
    assert len(ratios) > len(WAVES) // 2
    assert np.mean(ratios) >= MEAN[name]
    assert min(ratios) >= LEAST_IN_WAVES


WAVES, MOST_WAVES = range(7000, 7040), 10
MEAN = {"pools": 0.995, "fleet": 0.995}
"""Least mean of what is saved of the bound."""
LEAST = 0.95
"""Least of any cluster, of what the programme has found. Its bound is not proven within its time for some, and it knows
no order in which spread pods can be placed."""
LEAST_IN_WAVES = 0.85
"""The same of ten waves: one of 56 other clusters saves 0.895."""
