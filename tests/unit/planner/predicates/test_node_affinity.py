"""NodeAffinity, of terms that an API server refuses but callers can send; the rest is held against the scheduler."""

import pytest

from tests.builders.fitting import fitting, node, pending, requires
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, PodRequirements

NODES = [node("n1", labels={"size": "5", "pool": "a"}), node("n2", labels={"pool": "b"})]
BY_NAME = NodeAffinityTerm((), (requires("metadata.name", "In", "n1", "n2"),))


@pytest.mark.parametrize(
    "requirement",
    [
        pytest.param(requires("size", "Gt", "+4"), id="a bound that is no label value"),
        pytest.param(requires("size", "Gt", "1", "2"), id="two bounds"),
        pytest.param(requires("pool", "NotIn"), id="NotIn without values"),
        pytest.param(requires("pool", "NotIn", "not a label value"), id="an impossible value"),
        pytest.param(requires("pool", "Exists", "a"), id="Exists with a value"),
        pytest.param(requires("-pool", "DoesNotExist"), id="an impossible key"),
    ],
)
def test_a_requirement_that_cannot_be_matches_nothing_and_leaves_the_other_terms(requirement: LabelRequirement) -> None:
    broken, other = NodeAffinityTerm((requirement,), ()), NodeAffinityTerm((requires("pool", "In", "b"),), ())
    assert fitting(pending(PodRequirements(node_affinity=(broken, BY_NAME))), NODES) == set()
    assert fitting(pending(PodRequirements(node_affinity=(broken, other))), NODES) == {"n2"}
