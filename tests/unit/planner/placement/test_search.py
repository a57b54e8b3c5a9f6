"""Pending pods are placed as by the naive twin, on random clusters with every constraint."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.drain_sets import some_rows
from tests.builders.examples import examples
from tests.builders.random_rows import ZONE
from tests.builders.rows import NodeRow, PodRow
from tests.reference.placement import search as twin
from tests.reference.simulation.moves import Cluster
from trimtab.planner.model.values import LabelRequirement, PodRequirements, SpreadConstraint
from trimtab.planner.placement.kernels.search import NO_DOMAINS, REMEMBERED, SEARCHES, evacuate, place_all
from trimtab.planner.placement.waiting import new_search
from trimtab.planner.simulation.build import build_simulation
from trimtab.v1.snapshot_pb2 import LabelOperator


def place_both(seed: int) -> tuple[twin.Placed, list[int]]:
    """Close nodes, evict their pods and place them; return the twin's result and the requested pods."""
    random, (nodes, pods, namespaces) = Random(seed), some_rows(seed)
    cluster = Cluster(nodes, pods, namespaces)
    names = list(cluster.nodes)
    simulation = build_simulation(snapshot(nodes, pods, namespaces))
    state = simulation.state
    closed = random.sample(range(len(names)), random.randint(0, len(names) - 1))
    leaving = [pod for pod, at in enumerate(cluster.at) if at and (names.index(at) in closed or random.random() < 0.3)]
    gone = random.random() < 0.5
    twin.evacuate(cluster, closed, leaving, gone)
    evacuate(state, np.array(closed, np.int32), np.array(leaving, np.int32), gone)
    order = [node for node in random.sample(range(len(names)), len(names)) if random.random() < 0.8]
    asked = random.sample(range(len(pods)), random.randint(0, len(pods)))
    hint = {pod: random.randrange(-1, len(names)) for pod in asked if random.random() < 0.5}
    strict = random.random() < 0.3
    hints, destination = np.full(len(pods), -1, np.int32), np.full(len(pods), -2, np.int32)
    hints[list(hint)] = list(hint.values())
    allowed, counts = np.zeros(len(names), bool), np.zeros(2, np.int64)
    allowed[order] = True
    # Nodes that must not receive pods are in the order too, as if a caller closes some later.
    whole = [*order, *(node for node in range(len(names)) if node not in order)]
    searching = new_search(state, np.array(whole, np.int32), allowed)
    if random.random() < 0.5:
        searching = searching._replace(domains=NO_DOMAINS)
    expected = twin.place_all(cluster, order, hint, asked, strict, state.pod_class.tolist())
    stuck = place_all(state, searching, hints, destination, counts, np.array(asked, np.int32), strict)
    assert stuck == expected.stuck
    assert {pod: int(node) for pod, node in enumerate(destination) if node != -2} == expected.destination
    assert [int(node) for node in state.pod_node] == [names.index(at) if at else -1 for at in cluster.at]
    assert counts[REMEMBERED] == expected.hits
    assert counts.sum() <= len(asked)
    assert counts[SEARCHES] >= sum(node < 0 for node in expected.destination.values())
    return expected, asked


@given(st.integers(0, 2**48))
@examples(120)
def test_pods_go_where_the_twin_puts_them(seed: int) -> None:
    place_both(seed)


def test_a_search_by_domain_finds_what_one_node_by_node_does() -> None:
    """Many pods of two classes, and zones of different sizes; the zone with the most room comes last."""
    even = SpreadConstraint(2, ZONE, (LabelRequirement("app", LabelOperator.EXISTS, ()),), 1, True, False, ())
    specs = [PodRequirements(requests=(("cpu", amount),), topology_spread=(even,)) for amount in (1, 2)]
    nodes = [NodeRow(f"n{i:02}", {ZONE: f"z{i * 3 // 20}"}, {"cpu": 3 + i // 4, "pods": 9}) for i in range(20)]
    pods = [PodRow(f"p{i:02}", specs[i % 7 // 5], labels={"app": "a"}) for i in range(90)]
    found = []
    for by_domain in (True, False):
        state = build_simulation(snapshot(nodes, pods, {})).state
        search = new_search(state, np.arange(20, dtype=np.int32), np.ones(20, bool))
        assert len(search.domains.chain) > 0
        search = search if by_domain else search._replace(domains=NO_DOMAINS)
        hint, where = np.full((2, 90), -1, np.int32)
        place_all(state, search, hint, where, np.zeros(2, np.int64), np.arange(90, dtype=np.int32), False)
        found.append(where.tolist())
    assert found[0] == found[1]
    assert {-1, 0, 7, 14} <= set(found[0])


def test_random_pods_find_places_and_do_not() -> None:
    found = [place_both(seed)[0] for seed in range(150)]
    assert sum(-1 in one.destination.values() for one in found) > 20
    assert sum(one.stuck >= 0 for one in found) > 5
    assert sum(one.hits for one in found) > 10
