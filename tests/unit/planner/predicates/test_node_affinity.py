"""NodeAffinity, case by case."""

import pytest

from tests.builders.fitting import fitting, node, pending, reasons, requires
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, PodRequirements

NODES = [
    node("n1", labels={"size": "5", "pool": "a"}),
    node("n2", labels={"size": "-7", "pool": "b"}),
    node("n3", labels={"size": "large"}),
    node("n4"),
]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        pytest.param(requires("pool", "In", "a", "c"), {"n1"}, id="In"),
        pytest.param(requires("pool", "NotIn", "a"), {"n2", "n3", "n4"}, id="NotIn matches where the label is missing"),
        pytest.param(requires("pool", "Exists"), {"n1", "n2"}, id="Exists"),
        pytest.param(requires("pool", "DoesNotExist"), {"n3", "n4"}, id="DoesNotExist"),
        pytest.param(requires("size", "Gt", "4"), {"n1"}, id="Gt passes over what is not an integer"),
        pytest.param(requires("size", "Lt", "5"), {"n2"}, id="Lt with a negative label"),
        pytest.param(requires("size", "Gt", "+4"), set(), id="a bound must also be a label value"),
        pytest.param(requires("size", "Gt", "4.5"), set(), id="a bound that is not an integer matches nothing"),
        pytest.param(requires("size", "Gt", "1", "2"), set(), id="two bounds match nothing"),
        pytest.param(requires("size", "Gt", "9223372036854775808"), set(), id="a bound beyond 64 bits"),
        pytest.param(requires("pool", "NotIn"), set(), id="NotIn without values matches nothing"),
        pytest.param(requires("pool", "NotIn", "not a label value"), set(), id="an impossible value matches nothing"),
        pytest.param(requires("pool", "Exists", "a"), set(), id="Exists with a value matches nothing"),
        pytest.param(requires("-pool", "DoesNotExist"), set(), id="an impossible key matches nothing"),
    ],
)
def test_a_requirement_selects_nodes(requirement: LabelRequirement, expected: set[str]) -> None:
    spec = PodRequirements(node_affinity=(NodeAffinityTerm((requirement,), ()),))
    assert fitting(pending(spec), NODES) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param((), set(), id="no term matches nothing"),
        pytest.param((NodeAffinityTerm((), ()),), set(), id="an empty term matches nothing"),
        pytest.param(
            (
                NodeAffinityTerm((requires("pool", "In", "a"),), ()),
                NodeAffinityTerm((requires("size", "In", "large"),), ()),
            ),
            {"n1", "n3"},
            id="terms are alternatives",
        ),
        pytest.param(
            (NodeAffinityTerm((requires("pool", "Exists"), requires("size", "Lt", "0")), ()),),
            {"n2"},
            id="requirements of a term all hold",
        ),
        pytest.param(
            (NodeAffinityTerm((), (requires("metadata.name", "In", "n4"),)),), {"n4"}, id="a node by its name"
        ),
        pytest.param(
            (NodeAffinityTerm((), (requires("metadata.name", "NotIn", "n4"),)),),
            {"n1", "n2", "n3"},
            id="all but one by name",
        ),
        pytest.param(
            (NodeAffinityTerm((), (requires("metadata.name", "In", "n1", "n2"),)),),
            set(),
            id="two names in one field requirement match nothing",
        ),
        pytest.param(
            (
                NodeAffinityTerm((requires("size", "Gt", "x"),), ()),
                NodeAffinityTerm((requires("pool", "In", "b"),), ()),
            ),
            {"n2"},
            id="a broken term leaves the others",
        ),
    ],
)
def test_terms_select_nodes(terms: tuple[NodeAffinityTerm, ...], expected: set[str]) -> None:
    assert fitting(pending(PodRequirements(node_affinity=terms)), NODES) == expected


def test_the_node_selector_holds_as_well_as_affinity() -> None:
    spec = PodRequirements(
        node_selector=(("pool", "a"),), node_affinity=(NodeAffinityTerm((requires("size", "Exists"),), ()),)
    )
    assert fitting(pending(spec), NODES) == {"n1"}


@pytest.mark.parametrize(
    ("pinned", "expected"), [pytest.param("n2", {"n2"}, id="to a node"), pytest.param("gone", set(), id="to none")]
)
def test_a_pinned_pod_fits_only_its_node(pinned: str, expected: set[str]) -> None:
    pod = pending(PodRequirements(), pinned=pinned)
    assert fitting(pod, NODES) == expected
    assert reasons(pod, NODES)["n1"] == ["NODE_AFFINITY_NOT_MATCHED"]
