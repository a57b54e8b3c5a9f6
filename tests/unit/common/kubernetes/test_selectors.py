"""Selectors of labels and nodes: read, canonical, and refused where the API server refuses them."""

from typing import Any

import msgspec
import pytest

from tests.builders.kubernetes import taint, toleration
from trimtab.common.kubernetes.kinds.metadata import LabelSelector, NodeSelector
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GT,
    IN,
    NOT_IN,
    label_selector,
    matches,
    node_selector_terms,
    selects,
    selects_node,
    tolerates,
)


def of_labels(value: dict[str, Any] | None) -> Any:
    return label_selector(None if value is None else msgspec.convert(value, LabelSelector))


def of_nodes(*terms: dict[str, Any]) -> Any:
    return node_selector_terms(msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector))


def expression(key: str | None, operator: str | None, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("selector", "requirements"),
    [
        pytest.param(None, None, id="none matches nothing"),
        pytest.param({}, (), id="empty matches everything"),
        pytest.param({"matchLabels": None, "matchExpressions": None}, (), id="nulls are empty"),
        pytest.param({"matchLabels": {"b": "2", "a": ""}}, (("a", IN, ("",)), ("b", IN, ("2",))), id="labels sorted"),
        pytest.param(
            {"matchExpressions": [expression("a", "In", "y", "x", "y")]}, (("a", IN, ("x", "y")),), id="values sorted"
        ),
        pytest.param(
            {
                "matchExpressions": [
                    expression("a", "NotIn", "x"),
                    expression("a", "Exists"),
                    expression("a", "DoesNotExist"),
                ]
            },
            (("a", NOT_IN, ("x",)), ("a", EXISTS, ()), ("a", DOES_NOT_EXIST, ())),
            id="every operator",
        ),
    ],
)
def test_a_label_selector_becomes_requirements(selector: dict[str, Any] | None, requirements: Any) -> None:
    assert of_labels(selector) == requirements


@pytest.mark.parametrize(
    ("one", "path"),
    [
        pytest.param(expression("a", "Foo", "x"), "operator", id="unknown operator"),
        pytest.param(expression("a", "Gt", "1"), "operator", id="Gt is for nodes"),
        pytest.param(expression("a", "in", "x"), "operator", id="lower case"),
        pytest.param(expression("a", None, "x"), "operator", id="no operator"),
        pytest.param(expression("a", "In"), "values", id="In without values"),
        pytest.param(expression("a", "NotIn"), "values", id="NotIn without values"),
        pytest.param(expression("a", "Exists", "x"), "values", id="Exists with values"),
        pytest.param(expression(None, "Exists"), "key", id="no key"),
    ],
)
def test_a_broken_expression_is_refused_with_its_field(one: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as caught:
        of_labels({"matchExpressions": [expression("ok", "Exists"), one]})
    assert caught.value.path == f"matchExpressions[1].{path}"


def test_node_selector_terms_keep_labels_and_fields_apart() -> None:
    term = {
        "matchExpressions": [expression("a", "Gt", "5")],
        "matchFields": [expression("metadata.name", "NotIn", "n1")],
    }
    assert of_nodes(term, {}) == (((("a", GT, ("5",)),), (("metadata.name", NOT_IN, ("n1",)),)), ((), ()))


@pytest.mark.parametrize(
    ("term", "path"),
    [
        pytest.param({"matchExpressions": [expression("a", "Lt", "1", "2")]}, "matchExpressions[0].values", id="Lt"),
        pytest.param({"matchFields": [expression("metadata.uid", "In", "x")]}, "matchFields[0].key", id="field"),
        pytest.param({"matchFields": [expression("metadata.name", "In", "x", "y")]}, "matchFields[0].values", id="two"),
        pytest.param({"matchFields": [expression("metadata.name", "Exists")]}, "matchFields[0].operator", id="exists"),
    ],
)
def test_a_broken_node_selector_is_refused_with_its_field(term: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as caught:
        of_nodes(term)
    assert caught.value.path == f"nodeSelectorTerms[0].{path}"


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (None, {"a": "x"}, False),
        ({}, {}, True),
        ({"matchLabels": {"a": "x"}}, {"a": "x"}, True),
        ({"matchLabels": {"a": "x"}}, {}, False),
        ({"matchExpressions": [expression("a", "NotIn", "x")]}, {}, True),
        ({"matchExpressions": [expression("a", "NotIn", "x")]}, {"a": "x"}, False),
        ({"matchExpressions": [expression("a", "Exists")]}, {"a": ""}, True),
        ({"matchExpressions": [expression("a", "DoesNotExist")]}, {"a": ""}, False),
    ],
)
def test_a_selector_matches_labels(selector: dict[str, Any] | None, labels: dict[str, str], expected: bool) -> None:
    assert matches(of_labels(selector), labels) is expected
    assert selects(selector, labels) is expected


@pytest.mark.parametrize(
    "one", [expression("app", "Unheard", "web"), expression("size", "Gt", "1"), expression("size", "in", "5")]
)
def test_an_operator_that_label_selectors_do_not_have_never_matches(one: dict[str, Any]) -> None:
    assert not selects({"matchExpressions": [one]}, {"app": "web", "size": "5"})


def with_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, True, id="no rule"),
        pytest.param({"nodeSelector": {"size": "5"}}, True, id="node selector"),
        pytest.param({"nodeSelector": {"size": "6"}}, False, id="another value"),
        pytest.param(with_affinity(), False, id="no alternative"),
        pytest.param(with_affinity({}), False, id="an empty alternative"),
        pytest.param(with_affinity({"matchExpressions": [expression("size", "Gt", "4")]}), True, id="greater"),
        pytest.param(with_affinity({"matchExpressions": [expression("size", "Lt", "5")]}), False, id="not less"),
        pytest.param(with_affinity({"matchExpressions": [expression("size", "Gt", "1_0")]}), False, id="underscore"),
        pytest.param(with_affinity({"matchExpressions": [expression("size", "Gt", " 4")]}), False, id="blank"),
        pytest.param(with_affinity({"matchExpressions": [expression("size", "Gt", "٤")]}), False, id="not ASCII"),
        pytest.param(
            with_affinity({"matchExpressions": [expression("size", "Lt", str(1 << 63))]}), False, id="beyond int64"
        ),
        pytest.param(with_affinity({"matchFields": [expression("metadata.name", "In", "n1")]}), True, id="its name"),
        pytest.param(with_affinity({"matchFields": [expression("metadata.name", "Exists")]}), False, id="no operator"),
    ],
)
def test_which_nodes_a_pod_allows(spec: dict[str, Any], expected: bool) -> None:
    assert selects_node(spec, "n1", {"size": "5"}) is expected


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param([], False, id="none"),
        pytest.param([toleration()], True, id="everything"),
        pytest.param([toleration("k")], True, id="key"),
        pytest.param([toleration("k", "v")], True, id="key and value"),
        pytest.param([toleration("k", "w")], False, id="other value"),
        pytest.param([toleration("k", effect="NoExecute")], False, id="other effect"),
        pytest.param([{"operator": "Equal", "value": "v"}], False, id="Equal needs a key"),
    ],
)
def test_which_tolerations_cover_a_taint(tolerations: list[dict[str, Any]], expected: bool) -> None:
    assert tolerates(tolerations, taint("k=v:NoSchedule")) is expected
