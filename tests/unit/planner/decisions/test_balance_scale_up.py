"""BalanceScaleUp answers by id, whatever the order of groups, and with fields that it does not know."""

from itertools import permutations

import pytest

from trimtab.planner.decisions.balance_scale_up import balance_scale_up
from trimtab.v1 import planner_pb2

GROUPS = [("b", 1, 9), ("ä", 1, 2), ("a", 4, 9), ("\U0001f600", 1, 1)]


def request_of(rows: list[tuple[str, int, int]], new_nodes: int = 0) -> planner_pb2.BalanceScaleUpRequest:
    groups = [planner_pb2.NodeGroupSize(node_group=name, current_size=size, max_size=most) for name, size, most in rows]
    return planner_pb2.BalanceScaleUpRequest(node_groups=groups, new_nodes=new_nodes)


@pytest.mark.parametrize("rows", list(permutations(GROUPS)), ids=str)
def test_groups_that_grow_are_sorted_by_the_bytes_of_their_ids(rows: tuple[tuple[str, int, int], ...]) -> None:
    splits = balance_scale_up(request_of(list(rows), 4)).splits
    grown = [(one.node_group, one.current_size, one.new_size, one.max_size) for one in splits]
    assert grown == [("b", 1, 4, 9), ("ä", 1, 2, 2)]


def test_fields_of_a_later_contract_are_passed_over() -> None:
    plain = request_of([("b", 1, 9), ("a", 1, 9)], 3)
    later = planner_pb2.BalanceScaleUpRequest.FromString(
        # Field 9 of the request and of a third group is unknown here.
        plain.SerializeToString() + b"\x48\x01" + b"\x0a\x09\x0a\x01c\x10\x01\x18\x09\x48\x05"
    )
    found = [(one.node_group, one.new_size) for one in balance_scale_up(later).splits]
    assert found == [("a", 2), ("b", 2), ("c", 2)]
