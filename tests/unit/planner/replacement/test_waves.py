"""Limits on waves cost little: waves follow a plan that takes all of them as one. Every plan is verified by the
certificate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import ALL, examples
from tests.builders.kubernetes import Json, node, node_group, pdb, spread
from tests.builders.mid_size_clusters import mid_size
from tests.builders.replacement import WEB, group, plan, web
from trimtab.planner.replacement.trial import Target, target_of

ANY_SAVING: Json = {"stabilityMargin": 0, "minSavingShare": 0}
LARGE_WAVES: Json = {"maxLeavingNodes": 100, "maxSurgeNodes": 100}
MOST_IN_WAVES = 1.02
"""Highest mean of the price as a multiple of that with waves as large as need be."""


@pytest.mark.ci
def test_waves_of_usual_size_cost_hardly_more_than_one_large_wave() -> None:
    ratios = []
    for seed in (205, 208) if ALL else (208,):
        objects = mid_size(seed, spread=seed % 2 == 1).objects()
        usual, large = (plan(objects, settings=ANY_SAVING | more).cost for more in ({}, LARGE_WAVES))
        ratios.append(usual.after_per_hour / large.after_per_hour)
    assert np.mean(ratios) <= MOST_IN_WAVES


def hardly_used(count: int) -> list[Json]:
    """Return nodes with a pod each, and smaller ones that take two of these."""
    names = [f"l{i:02}" for i in range(count)]
    return [WEB, *group("large", "16", "64Gi", 1.0, names), *group("small", "4", "16Gi", 0.3), *(
        web(f"p{name}", name, "1900m") for name in names
    )]  # fmt: skip


def test_small_waves_reach_the_price_of_a_large_one() -> None:
    large = plan(hardly_used(12), settings=LARGE_WAVES)
    small = plan(hardly_used(12), settings={"maxLeavingNodes": 3, "maxSurgeNodes": 2})
    assert len(large.waves) == 1 < len(small.waves)
    assert small.cost.after_per_hour == pytest.approx(large.cost.after_per_hour)


def test_a_disruption_budget_only_makes_more_waves() -> None:
    budget = pdb("web", 3, selector={"matchLabels": {"app": "web"}})
    objects = [one | {"metadata": one["metadata"] | {"labels": {"app": "web"}}} if one["kind"] == "Pod" else one
               for one in hardly_used(9)]  # fmt: skip
    free, bound = plan(objects, settings=LARGE_WAVES), plan(objects, budget, settings=LARGE_WAVES)
    assert len(free.waves) == 1 < len(bound.waves)
    assert bound.cost.after_per_hour == pytest.approx(free.cost.after_per_hour)


def test_a_limit_on_a_resource_holds_for_the_new_nodes_of_all_groups_together() -> None:
    names = ["l0", "l1"]
    small = [one for name in ("x", "y") for one in group(name, "12", "48Gi", 0.2, max_size=1)]
    pods = [web(f"p{i}", name, "10") for i, name in enumerate(names)]
    objects = [WEB, *group("large", "16", "64Gi", 1.0, names, max_size=2), *small, *pods]
    limits = {"planner": {"limits": [{"resource": "cpu", "maximumAdded": 18000}]}}
    found = plan(objects, more=limits)
    assert sum(len(groups) for _, groups in found.waves) == 1
    assert sum(len(groups) for _, groups in plan(objects).waves) == 2


def test_a_dearer_group_of_another_zone_serves_pods_that_spread_over_zones() -> None:
    labels = {"app": "even"}
    zones = {"a": 0.2, "b": 0.22, "c": 0.24}
    large, small = ({zone: node("t", *size, zone=zone) for zone in zones} for size in (("16", "64Gi"), ("4", "16Gi")))
    groups = [
        one
        for zone, price in zones.items()
        for one in (
            node_group(f"old-{zone}", 0, 9, nodes=[f"n-{zone}"], target=1, price=1.0, template=large[zone]),
            node(f"n-{zone}", "16", "64Gi", zone=zone),
            node_group(f"new-{zone}", 0, 9, nodes=[], target=0, price=price, template=small[zone]),
        )
    ]
    even = [spread({"matchLabels": labels})]
    pods = [web(f"p{zone}", f"n-{zone}", "3", labels=labels, spread=even) for zone in zones]
    found = plan([WEB, *groups, *pods], settings=LARGE_WAVES)
    assert sorted(one for _, groups in found.waves for one in groups) == ["new-a", "new-b", "new-c"]


PODS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=20)


@given(PODS, PODS, st.lists(st.integers(0, 1), min_size=3, max_size=3))
@examples(100)
def test_places_of_a_target_are_taken_by_pods_of_their_class_alone(
    planned: list[tuple[int, int]], moved: list[tuple[int, int]], groups: list[int]
) -> None:
    """Pods are (class, node); of six nodes, the last three are new."""
    target = made(planned, groups).opened([0, 1, 2], np.array([3, 4, 5]))
    of_class, node = (np.array(column) for column in zip(*moved, strict=True))
    left = target.filled(of_class, node.astype(np.int32))
    taken = {one: min(planned.count(one), moved.count(one)) for one in planned}
    assert int((target.room - left.room).sum()) == sum(taken.values())
    in_place, elsewhere = target.in_place(of_class, node.astype(np.int32))
    assert in_place == pytest.approx(sum(count * (1 + of) for (of, _), count in taken.items()))
    known = {at for _, at in planned}
    assert elsewhere == pytest.approx(sum(1 + of for of, at in moved if at not in known))


@given(PODS, PODS, st.lists(st.integers(0, 1), min_size=3, max_size=3), st.integers(0, 3))
@examples(100)
def test_new_nodes_of_a_target_are_chosen_by_what_they_take_for_their_price(
    planned: list[tuple[int, int]], waiting: list[tuple[int, int]], groups: list[int], most: int
) -> None:
    target, price, may_add = made(planned, groups), np.array([1.0, 3.0]), np.array([1, 2])
    classes = [of for of, _ in waiting]
    assert target.chosen_new(np.array(classes), price, may_add, most) == chosen(
        planned, groups, classes, price.tolist(), may_add.tolist(), most
    )


def made(planned: list[tuple[int, int]], groups: list[int]) -> Target:
    of_class, node = (np.array(column) for column in zip(*planned, strict=True))
    worth = np.arange(1.0, 5.0)
    return target_of(np.zeros(3, bool), tuple(groups), of_class, node.astype(np.int32), 3, worth)


def chosen(
    planned: list[tuple[int, int]],
    groups: list[int],
    classes: list[int],
    price: list[float],
    left: list[int],
    most: int,
) -> list[int]:
    """Return the same, by trying each new node in each step."""
    need, found = {of: classes.count(of) for of in range(4)}, list[int]()
    while len(found) < most:
        gains = {
            new: sum((1 + of) * min(planned.count((of, 3 + new)), need[of]) for of in range(4)) / price[groups[new]]
            for new in range(3)
            if new not in found and left[groups[new]] > 0
        }
        best = max(gains, key=lambda new: (gains[new], -new), default=None)
        if best is None or gains[best] <= 0:
            break
        found.append(best)
        left[groups[best]] -= 1
        need = {of: max(need[of] - planned.count((of, 3 + best)), 0) for of in range(4)}
    return found
