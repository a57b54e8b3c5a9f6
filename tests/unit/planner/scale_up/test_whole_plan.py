"""How the plan for all pods at once treats pods with affinity, and when it is kept."""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, anti_affinity, labelled, node, node_group, pod, pod_affinity, spread
from tests.builders.scale_up import Outcome, plan, search_budgets
from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import UNLIMITED, Plan, PlanBounds, Problem
from trimtab.planner.new_nodes import cheapest_nodes, whole_problem
from trimtab.planner.scale_up import variants

ZONE = "topology.kubernetes.io/zone"
APART = anti_affinity(labelled(app="apart"))
EVEN = spread(labelled(app="even"), topology_key="kubernetes.io/hostname")


@pytest.fixture(autouse=True)
def no_other_expanders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out plans by other expanders: what the tests look at is the plan made as a whole."""
    monkeypatch.setattr(variants, "OTHERS_THAN_CHEAPEST", ())


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """Return a list to which the numeric problems are added."""
    asked: list[Problem] = []
    solve = cheapest_plan

    def noting(problem: Problem, bounds: PlanBounds) -> Plan:
        asked.append(problem)
        return solve(problem, bounds)

    monkeypatch.setattr(cheapest_nodes, "cheapest_plan", noting)
    monkeypatch.setattr(cheapest_nodes, "single_class_plan", lambda problem: None)
    return asked


def apart(name: str, cpu: str, **more: Any) -> Json:
    return pod(name, cpu, **({"labels": {"app": "apart"}, "affinity": APART} | more))


def cheapest(*objects: Json | list[Json]) -> Outcome:
    """Return groups in which a core costs less on a large node."""
    groups = [
        node_group(name, 0, 50, target=0, nodes=[], price=price, template=node("t", cores, "64Gi"))
        for name, cores, price in (("large", "12", 11.0), ("small", "3", 3.0))
    ]
    return plan(groups, *objects, settings={"expanders": ["CHEAPEST_PLAN"]})


def test_pods_of_different_sizes_that_keep_apart_get_a_node_each(
    problems: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they would fill a large node, but it takes only one of them."""
    search_budgets(monkeypatch, packed_groups=0)
    sizes = ["500m", "500m", "1", "1"]
    pods = [apart(f"apart-{i}", cpu) for i, cpu in enumerate(sizes)]
    found = cheapest(pods, [pod(f"any-{i}", "1") for i in range(8)])
    (asked,) = problems
    classes, limit = asked.demand[:, -1], asked.capacity[:, -1]
    assert sorted(zip(asked.pods.tolist(), classes.tolist(), strict=True)) == [(2, 1), (2, 1), (8, 0)]
    assert limit.tolist() == [1, 1]
    assert found.growth == {"small": 4}
    assert found.decision.price_per_hour == 12.0


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([apart(f"apart-{i}", "1") for i in range(4)], id="of one class, whose pods on a node are counted"),
        pytest.param(
            [
                apart(f"apart-{i}", cpu, affinity=anti_affinity(labelled(app="apart"), topology_key=ZONE))
                for i, cpu in enumerate(["1", "2"])
            ],
            id="by zone",
        ),
        pytest.param(
            [apart("one", "1", labels={"app": "one"}), apart("two", "2", labels={"app": "two"})], id="from others"
        ),
        pytest.param([pod("one", "1"), pod("two", "2")], id="not at all"),
    ],
)
def test_other_pods_are_not_limited_together(others: list[Json], problems: list[Problem]) -> None:
    cheapest(others)
    resources = {problem.demand.shape[1] for problem in problems}
    problems.clear()
    cheapest(pod("p", "1"))
    assert resources == {problem.demand.shape[1] for problem in problems}


def test_of_many_sets_the_largest_are_known(problems: list[Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_problem, "MOST_SETS", 1)
    pods = [
        pod(f"{app}-{i}", cpu, labels={"app": app}, affinity=anti_affinity(labelled(app=app)))
        for app, sizes in (("few", ["1", "2"]), ("more", ["1", "2", "2"]))
        for i, cpu in enumerate(sizes)
    ]
    found = cheapest(pods)
    limited = problems[0].demand[:, -1] == 1
    assert sorted(problems[0].pods[limited].tolist()) == [1, 2]
    assert problems[0].per_node.tolist() == [1, 1, 1, 1]
    assert set(found.growth.values()) == {3}, "a node for each of the larger set, which takes one of the other too"
    cheapest(pods[0])
    assert problems[1].demand.shape[1] == problems[0].demand.shape[1] - 1


@pytest.mark.parametrize("most", ["MOST_ALONE", "MOST_BOUND"])
def test_of_many_classes_only_those_with_most_pods_are_packed(most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def noting(_growing: object, _asked: Problem, _rows: list[int], pods: Any) -> tuple[None, None]:
        counts.append(len(pods.pods))
        return None, None

    monkeypatch.setattr(whole_problem, most, 1)
    monkeypatch.setattr(whole_problem, "_packed_alone", noting)
    pods = [
        pod(f"{app}-{i}", "1", labels={"app": app}, affinity=pod_affinity(labelled(app=app)))
        for app, count in (("few", 2), ("more", 3))
        for i in range(count)
    ]
    cheapest(pods)
    assert counts == [3]


def test_pods_of_one_kind_that_keep_apart_get_a_node_each(
    problems: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    search_budgets(monkeypatch, packed_groups=0)
    found = cheapest([apart(f"apart-{i}", "1") for i in range(4)], [pod(f"any-{i}", "1") for i in range(8)])
    assert sorted(zip(problems[0].pods.tolist(), problems[0].per_node.tolist(), strict=True))[0] == (4, 1)
    assert found.growth == {"small": 4}


def even(name: str, cpu: str, **more: Any) -> Json:
    """A pod that spreads over nodes."""
    return pod(name, cpu, **({"labels": {"app": "even"}, "spread": [EVEN]} | more))


def test_classes_that_only_their_labels_distinguish_share_a_row(problems: list[Problem]) -> None:
    """A service looks at labels; its own pods are few, so that their places are found when they are placed."""
    others = [pod(f"any-{i}", "1", labels={"app": ["even", "odd"][i % 2]}) for i in range(8)]
    alone = [apart(f"apart-{i}", "500m") for i in range(9)]
    found = cheapest(others, [even("even", "1")], alone)
    assert sorted(problems[0].pods.tolist()) == [9, 9]
    assert sum(found.growth.values()) == 9
    assert not found.decision.unschedulable


def test_pods_of_different_sizes_that_spread_over_nodes_have_a_limit_on_a_node(problems: list[Problem]) -> None:
    """Eight more cores need a node at least, which the full one makes two: a node more than one pod above the least."""
    sizes = ["500m", "500m", "1", "1", "1500m"]
    full = node("full", "1", "64Gi"), pod("full", "1", node="full")
    found = cheapest(*full, [even(f"even-{i}", cpu) for i, cpu in enumerate(sizes)], [pod("p", "8")])
    limited = problems[0].demand[:, -1] == 1
    assert sorted(problems[0].pods[limited].tolist()) == [1, 2, 2]
    assert set(problems[0].capacity[:, -1].tolist()) == {1}
    assert not found.decision.unschedulable
    spread_over = [sum("even" in pod for pod in pods) for nodes in found.new_nodes.values() for pods in nodes]
    assert max(spread_over) == 1


def test_pods_that_spread_over_nodes_have_no_limit_where_one_node_takes_all(problems: list[Problem]) -> None:
    found = cheapest([even(f"even-{i}", "1") for i in range(3)])
    assert problems[0].per_node.tolist() == [UNLIMITED]
    assert found.growth == {"small": 1}


def test_pods_that_few_nodes_must_share_are_limited_to_an_even_share(problems: list[Problem]) -> None:
    """Four pods that keep apart need four nodes, and twelve on these are three on each."""
    cheapest([apart(f"apart-{i}", "1") for i in range(4)], [even(f"even-{i}", "250m") for i in range(12)])
    assert sorted(zip(problems[0].pods.tolist(), problems[0].per_node.tolist(), strict=True)) == [(4, 1), (12, 4)]


def test_pods_of_different_sizes_that_spread_over_zones_are_shared_between_them_together(
    problems: list[Problem],
) -> None:
    zones = [
        node_group(zone, 0, 50, target=1, nodes=[zone], price=1.0, template=node("t", "4", zone=zone))
        for zone in ("za", "zb")
    ]
    there = [(node(zone, "1", zone=zone), pod(f"full-{zone}", "1", node=zone)) for zone in ("za", "zb")]
    by_zone = spread(labelled(app="even"))
    pods = [even(f"even-{i}", cpu, spread=[by_zone]) for i, cpu in enumerate(["1", "1", "1", "2"])]
    found = plan(zones, [one for pair in there for one in pair], pods, settings={"expanders": ["CHEAPEST_PLAN"]})
    assert problems[0].zone_most.sum(axis=0).tolist() == [2, 2]
    assert problems[0].zone_most.sum(axis=1).tolist() == problems[0].pods.tolist()
    assert not found.decision.unschedulable
