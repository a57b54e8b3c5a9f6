"""TaintToleration of many sets at once, and comparisons of numbers; single cases are in tests/parity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.fitting import fitting, node, pending
from tests.reference.predicates.taints import covers
from trimtab.planner.model.values import PodRequirements, TaintSpec, TolerationSpec
from trimtab.planner.predicates.taints import any_tolerates, untolerated
from trimtab.planner.simulation.build import SimulationSettings
from trimtab.v1.snapshot_pb2 import TaintEffect as Effect
from trimtab.v1.snapshot_pb2 import TolerationOperator as Op

KEYS, VALUES = st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"])
TAINTS = st.builds(TaintSpec, KEYS, VALUES, st.sampled_from(Effect.Code.values()[1:]))
TOLERATIONS = st.builds(TolerationSpec, KEYS, st.integers(0, 4), VALUES, st.sampled_from(Effect.Code.values()))


@given(st.lists(st.lists(TOLERATIONS).map(tuple)), st.lists(st.lists(TAINTS).map(tuple)).map(tuple))
def test_all_sets_at_once_are_judged_as_one_toleration_and_one_taint_are(
    toleration_sets: list[tuple[TolerationSpec, ...]], taint_sets: tuple[tuple[TaintSpec, ...], ...]
) -> None:
    excluding = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)
    expected = [
        [any(t.effect in excluding and not any_tolerates(tolerations, t) for t in taints) for taints in taint_sets]
        for tolerations in toleration_sets
    ]
    assert untolerated(toleration_sets, taint_sets).tolist() == expected


class Steps:
    """Counts how often the deadline is checked."""

    def __init__(self) -> None:
        self.checked = 0

    def check(self) -> None:
        self.checked += 1

    def reserve(self, byte_count: int, what: str) -> None:
        pass


def test_a_taint_for_each_of_thousands_of_tenants_costs_a_step_a_tenant_and_not_a_step_a_pair() -> None:
    count, steps = 3000, Steps()
    taints = tuple((TaintSpec("tenant", f"t{i}", Effect.NO_SCHEDULE),) for i in range(count))
    bare = untolerated([(TolerationSpec("tenant", Op.EQUAL, f"t{i}", 0),) for i in range(count)], taints, steps)
    assert (bare == ~np.eye(count, dtype=bool)).all()
    assert steps.checked == count


NUMBERS = ["0", "-0", "5", "-5", "007", "9.5", "+5", "", "x", str(2**63 - 1), str(-(2**63) + 1), str(2**63)]


@pytest.mark.parametrize("operator", [Op.LT, Op.GT], ids=["Lt", "Gt"])
def test_numbers_compare_as_the_twin_compares_them(operator: int) -> None:
    tolerations = [(TolerationSpec(key, operator, text, effect),) for text in NUMBERS for key, effect in KEYS]
    taints = tuple((TaintSpec("k", text, Effect.NO_SCHEDULE),) for text in NUMBERS)
    expected = [[not covers(one[0], taint[0], True) for taint in taints] for one in tolerations]
    assert untolerated(tolerations, taints).tolist() == expected


KEYS = [("k", 0), ("k", Effect.NO_SCHEDULE), ("k", Effect.NO_EXECUTE), ("other", 0)]


def test_numbers_are_compared_only_where_the_setting_says_so() -> None:
    below = pending(PodRequirements(tolerations=(TolerationSpec("k", Op.LT, "10", 0),)))
    nodes = [node(taints=(TaintSpec("k", "5", Effect.NO_SCHEDULE),))]
    assert fitting(below, nodes) == set()
    assert fitting(below, nodes, settings=SimulationSettings(compare_tolerations=True)) == {"n1"}
