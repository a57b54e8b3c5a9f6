"""Money decides in scale-up where every group that helps has a price, unless the settings name an expander."""

from typing import Any

import pytest

from tests.builders.kubernetes import Json, node, node_group, pod
from tests.builders.scale_up import Outcome, plan
from trimtab.v1 import plan_pb2

MONEY, COUNT, NEITHER = (plan_pb2.Objective.Code.Value(name) for name in ("MONEY", "COUNT", "UNSPECIFIED"))


def groups(**price: float | None) -> list[Json]:
    """Return groups at size 0 whose nodes have 4 cores, or 16 in `large`."""
    return [
        node_group(name, 0, 9, target=0, nodes=[], price=one, template=node("", "16" if name == "large" else "4"))
        for name, one in price.items()
    ]


def grown(objects: list[Json], **settings: Any) -> Outcome:
    """Plan for four pods that fill a small node each."""
    return plan([*objects, *(pod(f"p{number}", "3", "1Gi") for number in range(4))], settings=settings)


def sizes(found: Outcome) -> dict[str, int]:
    return {split.node_group: split.new_size for split in found.decision.splits}


def test_the_least_price_decides_where_all_prices_are_known() -> None:
    found = grown(groups(large=9.0, small=1.0))
    assert sizes(found) == {"small": 4}
    assert found.objective == MONEY


@pytest.mark.parametrize(
    ("expander", "expected"),
    [("LEAST_WASTE", NEITHER), ("LEAST_NODES", COUNT), ("PRICE", MONEY), ("CHEAPEST_PLAN", MONEY)],
)
def test_an_expander_that_the_user_names_decides(expander: str, expected: int) -> None:
    found = grown(groups(large=9.0, small=1.0), expanders=[expander])
    assert found.objective == expected
    if expander == "LEAST_NODES":
        assert sizes(found) == {"large": 1}


def test_a_group_without_price_that_would_help_leaves_the_choice_to_least_waste() -> None:
    priced = grown(groups(large=None, small=1.0))
    without = grown(groups(large=None, small=None))
    assert priced.objective == without.objective == NEITHER
    assert sizes(priced) == sizes(without)


def test_a_group_without_price_that_helps_no_pod_does_not_matter() -> None:
    tainted = node("", "4", taints=["gpu=yes:NoSchedule"])
    objects = [*groups(large=9.0, small=1.0), node_group("gpu", 0, 9, target=0, nodes=[], template=tainted)]
    found = grown(objects)
    assert sizes(found) == {"small": 4}
    assert found.objective == MONEY
