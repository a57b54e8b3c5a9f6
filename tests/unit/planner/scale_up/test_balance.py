"""Splits of new nodes over similar groups: as even as maxima allow, in any order of groups."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.scale_up import balance as naive
from trimtab.planner.decisions.balance_scale_up import balance_scale_up
from trimtab.planner.decisions.requests import RequestError
from trimtab.planner.scale_up.balance import split
from trimtab.v1 import planner_pb2

Groups = dict[str, tuple[int, int]]
"""Size and largest size by id."""

GROUPS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8).map(
    lambda rows: {f"g{i}": (size, size + more) for i, (size, more) in enumerate(rows)}
)
COUNTS = st.integers(0, 90)


def asked(groups: Groups, count: int) -> planner_pb2.BalanceScaleUpRequest:
    """Return a request."""
    rows = [planner_pb2.NodeGroupSize(node_group=name, current_size=size, max_size=most)
            for name, (size, most) in groups.items()]  # fmt: skip
    return planner_pb2.BalanceScaleUpRequest(node_groups=rows, new_nodes=count)


def grown(groups: Groups, count: int) -> dict[str, int]:
    """Return the new sizes of the groups that grow."""
    return {one.node_group: one.new_size for one in balance_scale_up(asked(groups, count)).splits}


SINGLE: Groups = {"a": (1, 10)}
ABC: Groups = {"a": (1, 10), "b": (3, 10), "c": (6, 10)}
FOUR: Groups = {"a": (1, 10), "b": (3, 10), "c": (5, 10), "d": (5, 10)}
TWO: Groups = {"full": (1, 1), "small": (1, 3)}
THREE: Groups = {"small": (1, 3), "roomy": (3, 10), "large": (5, 7)}
CASES: dict[str, tuple[Groups, int, dict[str, int]]] = {
    "one node for the smallest": (ABC, 1, {"a": 2}),
    "four nodes level the smaller two": (ABC, 4, {"a": 4, "b": 4}),
    "no node": (ABC, 0, {}),
    "one group, one node": (SINGLE, 1, {"a": 2}),
    "one group, four nodes": (SINGLE, 4, {"a": 5}),
    "one of four": (FOUR, 1, {"a": 2}),
    "up to the next": (FOUR, 2, {"a": 3}),
    "two at a time": (FOUR, 4, {"a": 4, "b": 4}),
    "one left over goes to the one that was smaller": (FOUR, 5, {"a": 5, "b": 4}),
    "all of them": (FOUR, 10, {"a": 6, "b": 6, "c": 6, "d": 6}),
    "a full group alone": ({"full": (1, 1)}, 1, {}),
    "a full group beside another": (TWO, 1, {"small": 2}),
    "more than there is room for": (TWO, 5, {"small": 3}),
    "the first fills up before the next": ({"small": (1, 3), "roomy": (3, 10)}, 4, {"small": 3, "roomy": 5}),
    "the last fills up before the one before it": (THREE, 9, {"small": 3, "roomy": 8, "large": 7}),
    "all room": (THREE, 900, {"small": 3, "roomy": 10, "large": 7}),
    "equal groups in the order of their ids": ({"b": (2, 9), "a": (2, 9), "c": (2, 9)}, 2, {"a": 3, "b": 3}),
}


@pytest.mark.parametrize("name", CASES)
def test_new_nodes_are_split_as_in_the_example(name: str) -> None:
    groups, count, wanted = CASES[name]
    assert grown(groups, count) == wanted


def test_a_group_above_its_maximum_takes_no_node() -> None:
    assert split(np.array([1, 6]), np.array([3, 3]), 1).tolist() == [1, 0]
    assert split(np.array([1, 6]), np.array([9, 3]), 7).tolist() == [7, 0]


def test_an_answer_names_what_grows_by_id_with_its_sizes() -> None:
    answer = balance_scale_up(asked({"b": (1, 9), "full": (3, 3), "a": (1, 7)}, 3))
    rows = [(one.node_group, one.current_size, one.new_size, one.max_size) for one in answer.splits]
    assert rows == [("a", 1, 3, 7), ("b", 1, 2, 9)]


@given(GROUPS, COUNTS, st.randoms())
def test_all_is_given_out_within_maxima_and_no_move_makes_it_more_even(
    groups: Groups, count: int, random: Random
) -> None:
    found = grown(groups, count)
    after = {name: found.get(name, size) for name, (size, _) in groups.items()}
    room = sum(most - size for size, most in groups.values())
    assert sum(after.values()) - sum(size for size, _ in groups.values()) == min(count, room)
    assert all(size <= after[name] <= most for name, (size, most) in groups.items())
    givers = [size for name, size in after.items() if size > groups[name][0]]
    takers = [size for name, size in after.items() if size < groups[name][1]]
    assert not givers or not takers or max(givers) - min(takers) <= 1
    rows = list(groups.items())
    random.shuffle(rows)
    assert grown(dict(rows), count) == found


LARGE = st.lists(st.tuples(st.integers(0, 40), st.integers(-3, 40)), min_size=1, max_size=12)


@given(LARGE, st.integers(0, 500))
def test_the_kernel_gives_every_node_to_whom_its_twin_gives_it(rows: list[tuple[int, int]], count: int) -> None:
    size = [row[0] for row in rows]
    most = [row[0] + row[1] for row in rows]
    order = sorted(range(len(rows)), key=size.__getitem__)
    found = split(np.array(size), np.array(most), count) + np.array(size)
    assert found.tolist() == naive.grow_smallest(order, size, most, count)


def test_very_many_nodes_take_no_longer_than_few() -> None:
    most = 2**31 - 1
    assert grown({"a": (0, most), "b": (7, most)}, most) == {"a": 2**30 + 3, "b": 2**30 + 3}


BAD: dict[str, tuple[planner_pb2.BalanceScaleUpRequest, str]] = {
    "no groups": (asked({}, 1), "node_groups"),
    "negative count": (asked(ABC, -1), "new_nodes"),
    "negative size": (asked({"a": (-1, 3)}, 1), "node_groups[0].current_size"),
    "above the maximum": (asked(ABC | {"z": (4, 3)}, 1), "node_groups[3].current_size"),
    "no id": (asked(ABC | {"": (0, 3)}, 1), "node_groups[3].node_group"),
    "an id twice": (
        planner_pb2.BalanceScaleUpRequest(node_groups=[*asked(ABC, 0).node_groups, *asked(SINGLE, 0).node_groups]),
        "node_groups[3].node_group",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_split_is_refused_by_the_field(name: str) -> None:
    request, field = BAD[name]
    with pytest.raises(RequestError) as caught:
        balance_scale_up(request)
    assert caught.value.field == field
