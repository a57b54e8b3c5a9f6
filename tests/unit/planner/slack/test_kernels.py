"""Placeholders stay and go as in the naive twins."""

from itertools import groupby
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.growing import random_growing_cluster
from tests.reference.slack import places
from trimtab.planner.model.tuning import PLACEHOLDER_CHOICES, PLACEHOLDER_RUNS
from trimtab.planner.slack.kernels.places import choose_staying, place_placeholders

SEEDS = st.integers(0, 2**48)


@given(st.data())
@settings(deadline=None)
def test_as_many_placeholders_stay_on_each_node_as_any_choice_keeps(data: st.DataObject) -> None:
    resources = data.draw(st.integers(1, 3))
    amounts = st.lists(st.integers(0, 9), min_size=resources, max_size=resources)
    request = data.draw(st.lists(amounts, min_size=1, max_size=5))
    free = data.draw(st.lists(amounts, min_size=1, max_size=3))
    classes = st.lists(st.tuples(st.integers(0, len(request) - 1), st.integers(1, 3)), max_size=4)
    on_node = [[one for one, times in data.draw(classes) for _ in range(times)] for _ in free]
    found, leaving = chosen(free, request, on_node)
    expected = [
        places.kept(room, [(one, request[one]) for one in rows]) for room, rows in zip(free, on_node, strict=True)
    ]
    assert found == expected
    assert leaving == sum(not one for rows in expected for one in rows)


def test_with_too_many_choices_one_stays_after_the_other() -> None:
    request = [[size] for size in range(3, 3 + PLACEHOLDER_RUNS + 2)]
    rows = list(range(len(request))) * 2
    found, _ = chosen([[30]], request, [rows])
    assert found == [places.first_ones([30], [(one, request[one]) for one in rows])]
    many = [one for one in range(2) for _ in range(PLACEHOLDER_CHOICES)]
    found, _ = chosen([[4000]], [[1], [2]], [many])
    assert found == [[True] * 4000 + [False] * (2 * PLACEHOLDER_CHOICES - 4000)]


def chosen(free: list[list[int]], request: list[list[int]], on_node: list[list[int]]) -> tuple[list[list[bool]], int]:
    kept = np.zeros(sum(map(len, on_node)), np.bool_)
    offsets = np.cumsum([0, *map(len, on_node)]).astype(np.int64)
    leaving = choose_staying(
        np.array(free, np.int64),
        np.array(request, np.int64),
        np.array([one for rows in on_node for one in rows], np.int64),
        offsets,
        np.arange(len(free), dtype=np.int32),
        np.zeros((4, PLACEHOLDER_RUNS + 1), np.int64),
        kept,
    )
    return [kept[offsets[n] : offsets[n + 1]].tolist() for n in range(len(on_node))], leaving


@given(SEEDS)
@examples(200)
def test_placeholders_go_where_plain_search_puts_them(seed: int) -> None:
    made, random = random_growing_cluster(seed), Random(seed)
    state, cluster = made.simulation.state, made.cluster
    pods = sorted(made.pending, key=lambda pod: (int(state.pod_class[pod]), pod))
    sets = [list(rows) for _, rows in groupby(pods, key=lambda pod: int(state.pod_class[pod]))]
    random.shuffle(sets)
    pods = [pod for rows in sets for pod in rows]
    nodes = [at for at, name in enumerate(made.names) if cluster.state[name] == "open" and random.random() < 0.8]
    random.shuffle(nodes)
    hints = {pod: random.choice(nodes) for pod in pods if nodes and random.random() < 0.5}
    allowed = np.zeros(len(made.names), np.bool_)
    allowed[nodes] = True
    tried = np.zeros(len(sets), np.int64)
    alone = {pod for pod in pods if state.local_class[state.pod_class[pod]]}
    placed = place_placeholders(
        state,
        np.cumsum([0, *map(len, sets)]).astype(np.int64),
        np.array(pods, np.int64),
        np.array([hints.get(pod, -1) for pod in pods], np.int32),
        np.array(nodes, np.int32),
        allowed,
        tried,
    )
    expected = places.place_placeholders(
        cluster, sets, {pod: made.names[at] for pod, at in hints.items()}, [made.names[at] for at in nodes], alone
    )
    where = {pod: made.names[state.pod_node[pod]] if state.pod_node[pod] >= 0 else "" for pod in pods}
    assert where == {pod: cluster.at[pod] for pod in pods}
    assert placed == sum(map(bool, where.values()))
    assert tried.tolist() == expected
