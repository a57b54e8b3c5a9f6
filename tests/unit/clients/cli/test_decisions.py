"""`--decision` as people type it."""

import pytest
from trimtab.v1 import plan_pb2

from clients.cli.decisions import read_decisions
from clients.cli.failures import InputError

DOWN, UP = plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.SCALE_UP


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param([], [DOWN], id="nothing asked for"),
        pytest.param(["scale-down"], [DOWN], id="with a dash"),
        pytest.param(["SCALE_DOWN"], [DOWN], id="as in the contract"),
        pytest.param(["scale-up", "Scale-Down", "scale_up"], [UP, DOWN], id="several, one twice"),
    ],
)
def test_names_are_read_in_the_order_given(names: list[str], expected: list[int]) -> None:
    assert read_decisions(names) == expected


@pytest.mark.parametrize("name", ["", "unspecified", "scaledown", "everything"])
def test_an_unknown_name_is_refused_and_the_known_ones_listed(name: str) -> None:
    with pytest.raises(InputError, match="scale-up, slack, scale-down, pod-costs"):
        read_decisions([name])
