"""PRICE rates options as the Cluster Autoscaler's expander does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.planner.scale_up.expander_options import Group, chosen_among
from trimtab.planner.scale_up import expanders
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason

PRICE = pb.Expander.PRICE
SMALL, LARGE = Group(cores=1, gib=4, pod_cores=1.5, nodes=2), Group(cores=4, gib=16, pod_cores=1.5)


@pytest.mark.parametrize(
    ("nodes", "cores"), [(0, 1), (2, 1), (3, 2), (6, 2), (7, 4), (20, 4), (27, 8), (60, 8), (61, 16), (201, 32)]
)
def test_the_preferred_node_grows_with_the_cluster(nodes: int, cores: int) -> None:
    assert expanders.preferred_cpu_milli(nodes) == cores * 1000


def expected(row: Group, node_count: int, core: float) -> float:
    """Return the score by a restatement of upstream's formula. core : price of a core."""
    gib = 0.134 * core
    pods = core * row.pod_cores + gib * row.pod_gib
    steady = core * 0.5 + gib * 500 / 1024
    ratio = (row.price * row.nodes + steady) / (pods + steady)
    preferred = expanders.preferred_cpu_milli(node_count) / 1000
    unfitness = max(preferred / row.cores, row.cores / preferred)
    suppressed = (unfitness - 1) * (1 - math.tanh((row.nodes - 1) / 15)) + 1
    return (1000.0 if row.gpu else suppressed) * ratio


ROWS = st.fixed_dictionaries({
    "cores": st.sampled_from([1, 2, 4, 8, 64]), "gib": st.sampled_from([1, 8, 100]), "price": st.floats(0.01, 50),
    "nodes": st.integers(1, 2000), "pod_cores": st.integers(0, 100), "pod_gib": st.integers(0, 100),
    "gpu": st.booleans(),
}).map(lambda row: Group(**row))  # fmt: skip


@given(st.lists(ROWS, min_size=1, max_size=5), st.integers(0, 400))
def test_scores_are_those_of_upstreams_formula(rows: list[Group], node_count: int) -> None:
    named = {f"g{i}": row for i, row in enumerate(rows)}
    core = min(row.price / (row.cores + 0.134 * row.gib) for row in rows)
    _, choice = chosen_among(named, PRICE, node_count=node_count)
    wanted = [-expected(row, node_count, core) for row in rows]
    assert choice.scores[0].tolist() == pytest.approx(wanted, rel=1e-9)


CASES: dict[str, tuple[dict[str, Group], int, str]] = {
    "the cheaper one": (
        {"small": SMALL._replace(price=20), "large": LARGE._replace(price=200)}, 6, "small"
    ),
    "the preferred one, though a little dearer": (
        {"small": SMALL._replace(price=50), "large": LARGE._replace(price=200)}, 20, "large"
    ),
    "of many nodes, the cheaper one, preferred or not": (
        {"small": SMALL._replace(price=20, nodes=80), "large": LARGE._replace(price=200, nodes=40)}, 20, "small",
    ),
    "the other one when it is cheaper": (
        {"small": SMALL._replace(price=200), "large": LARGE._replace(price=100)}, 6, "large"
    ),
    "of equal price, the one with more pods": (
        {"small": SMALL._replace(price=200, pod_cores=1), "large": LARGE._replace(price=200)}, 6, "large"
    ),
    "no GPU for pods that ask for none": (
        {"gpu": LARGE._replace(price=1, gpu=True), "large": LARGE._replace(price=50)}, 20, "large"
    ),
    "what is free, where all is free": ({"a": SMALL._replace(price=0), "b": LARGE._replace(price=0)}, 20, "b"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_option_of_the_example_is_chosen(name: str) -> None:
    rows, node_count, wanted = CASES[name]
    assert chosen_among(rows, PRICE, node_count=node_count)[0] == wanted


def test_a_group_without_a_price_is_excluded_even_if_it_is_the_only_one() -> None:
    group, choice = chosen_among({"a": SMALL}, PRICE)
    assert group == ""
    assert choice.reason.tolist() == [NodeGroupReason.PRICE_UNKNOWN]
    group, choice = chosen_among({"a": SMALL, "b": LARGE._replace(price=9)}, PRICE)
    assert group == "b"
    assert choice.reason.tolist() == [NodeGroupReason.PRICE_UNKNOWN, NodeGroupReason.UNSPECIFIED]


def test_a_node_without_cpu_is_the_worst_there_is() -> None:
    _, choice = chosen_among({"a": SMALL._replace(cores=0, price=1), "b": LARGE._replace(price=9)}, PRICE)
    assert choice.scores[0][0] == -np.inf
