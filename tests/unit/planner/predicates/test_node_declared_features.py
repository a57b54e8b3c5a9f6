"""A node must declare the features that a pod needs, where nodes declare any."""

import pytest

from tests.builders.fitting import fitting, pending, reasons
from tests.builders.rows import NodeRow
from trimtab.planner.model.values import PodRequirements

NODES = [NodeRow("both", declared_features=("F", "G")), NodeRow("one", declared_features=("F",)), NodeRow("none")]


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        pytest.param((), {"both", "one", "none"}, id="nothing"),
        pytest.param(("F",), {"both", "one"}, id="one feature"),
        pytest.param(("F", "G"), {"both"}, id="two features"),
        pytest.param(("H",), set(), id="a feature that no node declares"),
    ],
)
def test_a_node_must_declare_all_features_that_a_pod_needs(needed: tuple[str, ...], expected: set[str]) -> None:
    assert fitting(pending(PodRequirements(node_features=needed)), NODES) == expected


def test_the_reason_names_the_predicate() -> None:
    pod = pending(PodRequirements(node_features=("G",)))
    assert reasons(pod, NODES) == {
        "both": [],
        "one": ["NODE_FEATURE_NOT_DECLARED"],
        "none": ["NODE_FEATURE_NOT_DECLARED"],
    }


def test_where_no_node_declares_anything_no_feature_is_required() -> None:
    older = [NodeRow("n1"), NodeRow("n2")]
    assert fitting(pending(PodRequirements(node_features=("F",))), older) == {"n1", "n2"}
