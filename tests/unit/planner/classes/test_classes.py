"""Classes merge exactly the rows that scheduling cannot distinguish."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.columns import snapshot
from tests.builders.examples import examples
from tests.builders.fitting import HOST, ZONE, equals, node, requires
from tests.builders.rows import NodeRow, PodRow
from tests.reference.classes.selectors import holds
from trimtab.planner.classes.label_columns import LookedAt, group_columns, group_keys, group_rows, label_matrix
from trimtab.planner.model.label_syntax import parse_integer
from trimtab.planner.model.values import (
    AffinityTerm,
    LabelRequirement,
    NodeAffinityTerm,
    PodRequirements,
    SpreadConstraint,
)
from trimtab.planner.simulation.build import build_simulation
from trimtab.planner.snapshot.columns import Snapshot
from trimtab.v1.snapshot_pb2 import LabelOperator

MATRIX = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(0, 2)), max_size=30)


@given(MATRIX)
def test_rows_are_grouped_in_order_of_first_appearance(rows: list[tuple[int, int, int]]) -> None:
    groups = group_rows(np.array(rows, np.int32).reshape(len(rows), 3))
    order = list(dict.fromkeys(rows))
    assert groups.of.tolist() == [order.index(row) for row in rows]
    assert groups.first.tolist() == [rows.index(row) for row in order]


@given(MATRIX, st.sampled_from([3, 1 << 40]))
def test_columns_are_grouped_in_their_own_order(rows: list[tuple[int, int, int]], size: int) -> None:
    columns = [(np.array([row[i] + 3 for row in rows], np.int64), 7 * size) for i in range(3)]
    groups = group_columns(columns)
    order = sorted(set(rows))
    assert groups.of.tolist() == [order.index(row) for row in rows]
    assert groups.first.tolist() == [rows.index(row) for row in order]


@given(st.lists(st.integers(0, 50), max_size=40))
def test_a_table_and_a_sort_group_keys_alike(keys: list[int]) -> None:
    values = np.array(keys, np.int64)
    by_table, by_sort = group_keys(values, 51), group_keys(values, 1 << 50)
    assert by_table.of.tolist() == by_sort.of.tolist()
    assert by_table.first.tolist() == by_sort.first.tolist()


REQUIREMENTS = st.builds(
    LabelRequirement,
    st.sampled_from(["a", "b", "never"]),
    st.sampled_from(LabelOperator.Code.values()[1:]),
    st.lists(st.sampled_from(["1", "2", "-3", "x", ""]), min_size=1, max_size=2, unique=True).map(tuple),
)
LABELS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["1", "2", "-3", "x", "y", ""]))


@given(st.lists(LABELS, min_size=1, max_size=8), st.lists(REQUIREMENTS, min_size=1, max_size=4))
@examples(300)
def test_reduced_labels_meet_requirements_as_the_labels_do(
    label_sets: list[dict[str, str]], requirements: list[LabelRequirement]
) -> None:
    made = snapshot([NodeRow(f"n{i}", labels) for i, labels in enumerate(label_sets)])
    looked_at = LookedAt()
    for requirement in requirements:
        looked_at.requirement(requirement)
    matrix = label_matrix(made.strings, made.label_sets, made.nodes.label_set, looked_at)
    for requirement in requirements:
        met = matrix.matches(requirement)[matrix.groups.of]
        assert met.tolist() == [holds(requirement, labels) for labels in label_sets]


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("-7", -7), ("+4", 4), ("", None), ("-", None), ("1_0", None), (" 1", None), ("٣", None),
     ("9223372036854775807", 2**63 - 1), ("9223372036854775808", None), ("007", 7),
     ("-9223372036854775808", -(2**63)), ("0", 0), ("-0", 0), ("0" * 5000 + "7", 7), ("9" * 5000, None)],
)  # fmt: skip
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_integer(text) == number


def classes(made: Snapshot) -> list[int]:
    return build_simulation(made).pods.of.tolist()


def test_labels_that_no_selector_looks_at_do_not_split_pods() -> None:
    pods = [PodRow(f"p{i}", labels={"app": "x", "name": f"p{i}"}) for i in range(5)]
    assert set(classes(snapshot([], pods))) == {0}


def test_values_that_no_selector_names_do_not_split_pods() -> None:
    away = PodRequirements(pod_anti_affinity=(AffinityTerm(equals(app="x"), (), None, HOST),))
    pods = [PodRow("a", away), *(PodRow(f"p{i}", labels={"app": f"y{i}"}) for i in range(4))]
    assert len(set(classes(snapshot([], pods))[1:])) == 1


def test_values_that_a_selector_names_split_pods() -> None:
    away = PodRequirements(pod_anti_affinity=(AffinityTerm(equals(app="x"), (), None, HOST),))
    pods = [PodRow("a", away), PodRow("b", labels={"app": "x"}), PodRow("c", labels={"app": "y"})]
    assert len(set(classes(snapshot([], pods)))) == 3


def test_namespaces_split_pods_only_where_terms_look() -> None:
    pods = [PodRow(f"p{i}", namespace=f"ns{i}", labels={"app": "x"}) for i in range(4)]
    away = PodRequirements(pod_anti_affinity=(AffinityTerm(equals(app="x"), (), None, HOST),))
    assert set(classes(snapshot([], pods))) == {0}
    assert len(set(classes(snapshot([], [*pods, PodRow("z", away, "ns1")])))) == 3


def test_the_node_that_a_pod_is_pinned_to_does_not_split_pods() -> None:
    nodes = [node(f"n{i}") for i in range(4)]
    pods = [PodRow(f"p{i}", pinned=f"n{i}", node=f"n{i}") for i in range(4)]
    assert set(classes(snapshot(nodes, pods))) == {0}


def test_pinned_pods_with_a_spread_within_their_affinity_do_split() -> None:
    nodes = [node(f"n{i}") for i in range(2)]
    spec = PodRequirements(topology_spread=(SpreadConstraint(1, ZONE, equals(app="x"), 1, True, False, ()),))
    pods = [PodRow(f"p{i}", spec, pinned=f"n{i}") for i in range(2)]
    assert len(set(classes(snapshot(nodes, pods)))) == 2


def test_what_only_eviction_looks_at_does_not_split_pods() -> None:
    pods = [PodRow("a"), PodRow("b", PodRequirements(priority=7, safe_to_evict=2, termination_grace_period_s=1))]
    assert set(classes(snapshot([], pods))) == {0}


def test_hostnames_split_nodes_only_where_a_selector_names_them() -> None:
    nodes = [node(f"n{i:02}", "a" if i % 2 else "b") for i in range(40)]
    one = PodRequirements(node_affinity=(NodeAffinityTerm((requires(HOST, "In", "n07"),), ()),))
    zone = PodRequirements(node_selector=((ZONE, "a"),))
    assert build_simulation(snapshot(nodes, [PodRow("p")])).nodes.rows.count == 1
    assert build_simulation(snapshot(nodes, [PodRow("p", one), PodRow("q", zone)])).nodes.rows.count == 3


def test_classes_do_not_depend_on_the_order_of_pods_or_of_constraints_elsewhere() -> None:
    random = Random(1)
    pods = [
        PodRow(f"p{i:02}", PodRequirements(requests=(("cpu", i % 3 + 1),)), labels={"app": str(i % 2)})
        for i in range(12)
    ]
    expected = classes(snapshot([], pods))
    for _ in range(3):
        assert classes(snapshot([], random.sample(pods, len(pods)))) == expected
