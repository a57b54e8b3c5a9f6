"""Advice against an exhaustive search on small clusters: every lever alone, every pair and every three, carried out
on the objects and planned from the whole cluster. Nothing of the search for advice is used but the lines of its levers.
"""

import random
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import pytest

from tests.builders import kubernetes as k8s
from tests.builders.advised_clusters import AdvisedCase
from tests.builders.carried_out import carried_out
from trimtab.clients.advice.advise import base_plan
from trimtab.clients.advice.changes import AdvisedChange
from trimtab.clients.advice.counterfactuals import Counterfactuals
from trimtab.clients.advice.levers import budgets, objects, pods, settings
from trimtab.clients.advice.levers.lever import Lever
from trimtab.clients.advice.result import Advice
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient

Json = dict[str, Any]
STORED = {"volumes": [{"name": "v", "emptyDir": {}}]}
NOT_SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
SAMPLE, ALL = range(2), range(2, 60)
NEARLY = 0.9
"""Of several values of a line, one that frees so much of the best is advised."""


def small(seed: int) -> AdvisedCase:
    """Return a cluster of three to six nodes of two prices; some of its pods block for some of the reasons."""
    drawn = random.Random(seed)
    prices = {"a": 2.0, "b": drawn.choice((0.5, 2.0, 3.0))}
    minimums = {name: drawn.choice((0, 0, 1)) for name in prices}
    groups = [
        k8s.node_group(name, minimums[name], 9, selector={"pool": name}, price=price)
        for name, price in prices.items()
    ]  # fmt: skip
    count = drawn.randint(3, 6)
    nodes = [k8s.node(f"n{i}", labels={"pool": drawn.choice("ab")}) for i in range(count)]
    found: list[Json] = [*groups, *nodes]
    for number in range(drawn.randint(2, 4)):
        name = f"w{number}"
        workload = k8s.deployment(name, replicas=2)
        of_it = k8s.replica_set(f"{name}-1", replicas=2, owner=workload)
        blocked = drawn.choice(("storage", "annotation", "budget", "nothing", "budget", "storage"))
        places = drawn.sample(range(count), drawn.randint(1, 2))
        found += [workload, of_it]
        found += [
            k8s.pod(
                f"{name}-1-{place}", node=f"n{place}", cpu=drawn.choice(("500m", "1", "1500m")), owner=of_it,
                labels={"app": name}, annotations=NOT_SAFE if blocked == "annotation" else None,
                spec=STORED if blocked == "storage" else {},
            )
            for place in places
        ]  # fmt: skip
        if blocked == "budget":
            healthy = len(places)
            found.append(k8s.pdb(name, 0, labels={"app": name}, healthy=healthy, desired=healthy, expected=healthy))
    if drawn.random() < 0.5:
        found.append(k8s.pod("bare", node=f"n{drawn.randrange(count)}", cpu="500m"))
    return AdvisedCase(found)


def levers_of(case: AdvisedCase, planner: PlannerClient) -> list[Lever]:
    """Return every lever in the base plan, and every value of those that have several."""
    snapshot = case.snapshot()
    request = case.request(snapshot)
    answer = planner.plan(snapshot, request)
    base = base_plan(Counterfactuals(planner, ClusterView(snapshot), request, answer))
    finders = (
        settings.levers, budgets.budgets, budgets.several_budgets, objects.group_minimums, objects.node_annotations,
        pods.evictable, pods.placement,
    )  # fmt: skip
    every = {one.edit.key: one for find in finders for one in find(base)}
    return [step for one in every.values() for step in (one.steps or (one,))]


class Carried:
    """What plans with changes save, each carried out on the objects."""

    def __init__(self, case: AdvisedCase, planner: PlannerClient) -> None:
        self._case, self._planner = case, planner
        price = {one.id: one.price_per_hour for one in case.snapshot().node_groups}
        self._prices = {one.name: price[one.node_group] for one in case.snapshot().nodes}
        self._base = self._saved(case)

    def _saved(self, case: AdvisedCase) -> tuple[float, int]:
        going = [one.node for one in case.plan(self._planner).scale_down.unneeded]
        return sum(self._prices[node] for node in going), len(going)

    def gain(self, changes: Iterable[AdvisedChange]) -> tuple[float, int]:
        """Return what changes free beyond the base plan: money, then nodes."""
        advice = {"changes": [one.document() for one in changes]}
        money, nodes = self._saved(AdvisedCase(*carried_out(self._case.objects, self._case.settings, advice)))
        return round(money - self._base[0], 6), nodes - self._base[1]


def best_of(carried: Carried, levers: Sequence[Lever], count: int) -> tuple[float, int]:
    """Return the most that so many levers free together, of those that change no line twice."""
    best = (0.0, 0)
    for chosen in combinations(levers, count):
        lines = [(change.object, change.keys) for one in chosen for change in one.changes]
        if len(set(lines)) == len(lines):
            best = max(best, carried.gain(change for one in chosen for change in one.changes))
    return best


def gain_of(advice: Advice) -> tuple[float, int]:
    return round(advice.saving_per_hour or 0.0, 6), advice.node_count


@pytest.mark.parametrize(
    "seed", [*SAMPLE, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in ALL)]
)  # fmt: skip
def test_no_lever_pair_or_three_frees_more_than_what_is_advised(planner: PlannerClient, seed: int) -> None:
    case = small(seed)
    carried, levers, report = Carried(case, planner), levers_of(case, planner), case.advice(planner)
    alone = [carried.gain(one.changes) for one in levers]
    best = max(alone, default=(0.0, 0))
    first = gain_of(report.advice[0]) if report.advice else (0.0, 0)
    assert first[0] >= NEARLY * best[0], "the first advice is the best single lever"
    ranked = [gain_of(one) for one in report.advice]
    assert ranked == sorted(ranked, reverse=True)
    assert all(carried.gain(one.changes) == gain_of(one) for one in report.advice), "each frees what it promises"
    assert sum(one > 0 for one, _ in alone) == 0 or ranked, "what frees something alone is advised"
    together = max([gain_of(report.together)] if report.together else [], default=first)
    exhaustive = max(best, best_of(carried, levers, 2), best_of(carried, levers, 3))
    assert max(together, first)[0] >= exhaustive[0]
