"""Values of rows that a column may lack."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.planner.snapshot.references import MISSING, NONE, take_or


@given(st.lists(st.integers(-9, 9), max_size=4), st.data())
def test_a_row_has_its_value_and_no_row_has_the_other_one(values: list[int], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(MISSING, len(values) - 1)))
    taken = take_or(np.array(values, np.int64), np.array(rows, np.int32), 7)
    assert taken.tolist() == [7 if row in (NONE, MISSING) else values[row] for row in rows]


@pytest.mark.parametrize(("dtype", "otherwise"), [(np.bool_, True), (np.uint8, 255), (np.float64, np.inf)])
def test_the_result_has_the_type_of_the_values(dtype: Any, otherwise: float) -> None:
    taken = take_or(np.zeros(2, dtype), np.array([NONE, 0, MISSING]), otherwise)
    assert taken.dtype == dtype
    assert taken.tolist() == [otherwise, 0, otherwise]
