"""BalanceScaleUp reads and writes its messages as bytes, with the same result as field by field."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.decisions import balance_scale_up as naive
from trimtab.planner.decisions.balance_scale_up import balance_scale_up
from trimtab.planner.decisions.kernels.balance_scale_up import (
    FIRST,
    LAST,
    MOST,
    SIZE,
    ids_ascend,
    read_groups,
    write_splits,
)
from trimtab.planner.snapshot.columns import Int64, UInt8
from trimtab.v1 import planner_pb2

NUMBERS = st.sampled_from([0, 1, 127, 128, 2**31 - 1, -1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
ROWS = st.lists(st.tuples(st.text("aäb/", max_size=200), NUMBERS, NUMBERS), max_size=6)


def request_of(rows: list[tuple[str, int, int]], new_nodes: int = 0) -> planner_pb2.BalanceScaleUpRequest:
    groups = [planner_pb2.NodeGroupSize(node_group=name, current_size=size, max_size=most) for name, size, most in rows]
    return planner_pb2.BalanceScaleUpRequest(node_groups=groups, new_nodes=new_nodes)


def read(request: planner_pb2.BalanceScaleUpRequest) -> tuple[UInt8, Int64, bool]:
    data = np.frombuffer(bytearray(request.SerializeToString()), np.uint8)
    groups = np.empty((len(request.node_groups), 4), np.int64)
    return data, groups, bool(read_groups(data, groups))


@given(ROWS, NUMBERS)
def test_groups_are_read_as_field_by_field(rows: list[tuple[str, int, int]], new_nodes: int) -> None:
    request = request_of(rows, new_nodes)
    data, groups, plain = read(request)
    assert plain
    found = [(data[row[FIRST] : row[LAST]].tobytes().decode(), int(row[SIZE]), int(row[MOST])) for row in groups]
    assert found == naive.groups_of(request)
    assert ids_ascend(data, groups, np.arange(len(groups))) == naive.ids_ascend([row[0] for row in rows])


@given(ROWS)
def test_splits_are_written_as_field_by_field(rows: list[tuple[str, int, int]]) -> None:
    # No id is empty here.
    known = [(f"g{name}", abs(size) % 2**31, abs(most) % 2**31) for name, size, most in rows]
    data, groups, _ = read(request_of(known))
    order = np.arange(len(rows))[::-1].copy()
    grown = groups[order, MOST] // 2
    out = np.zeros(len(data) + 32 * len(rows), np.uint8)
    used = write_splits(data, groups, order, grown, out)
    wanted = naive.splits([(*known[row][:2], int(new), known[row][2]) for row, new in zip(order, grown, strict=True)])
    assert out[:used].tobytes() == wanted.SerializeToString()


def test_fields_of_a_later_contract_are_passed_over() -> None:
    plain = request_of([("b", 1, 9), ("a", 1, 9)], 3)
    later = planner_pb2.BalanceScaleUpRequest.FromString(
        # Field 9 of the request and of a third group is unknown here.
        plain.SerializeToString() + b"\x48\x01" + b"\x0a\x09\x0a\x01c\x10\x01\x18\x09\x48\x05"
    )
    assert not read(later)[2]
    found = [(one.node_group, one.new_size) for one in balance_scale_up(later).splits]
    assert found == [("a", 2), ("b", 2), ("c", 2)]
