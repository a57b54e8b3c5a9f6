"""Keys and values of annotations that mean nothing are noted, with the object, the key and the value."""

import pytest

from tests.builders import kubernetes as k8s
from tests.unit.common.objects.reading import notes

CA = "cluster-autoscaler.kubernetes.io/"
KARPENTER = "karpenter.sh/do-not-disrupt"


@pytest.mark.parametrize(
    ("key", "value"),
    [(CA + "scale-down-disabled", "True"), (CA + "scale-down-disabled", "yes"), (KARPENTER, "TRUE")],
)
def test_a_value_on_a_node_that_is_not_understood_is_noted(key: str, value: str) -> None:
    (note,) = notes(k8s.node("n1", annotations={key: value}))
    assert note.startswith(f"Node n1: annotation {key}: the value {value!r} is not understood")


@pytest.mark.parametrize("value", ["true", "false", ""])
def test_a_value_that_is_understood_is_not_noted(value: str) -> None:
    assert notes(k8s.node("n1", annotations={CA + "scale-down-disabled": value, "example.com/mine": "True"})) == []


@pytest.mark.parametrize("key", [CA + "scale-down-disabled ", "Karpenter.sh/do-not-disrupt"])
def test_a_key_with_a_blank_or_other_case_is_noted_with_its_spelling(key: str) -> None:
    (note,) = notes(k8s.node("n1", annotations={key: "true"}))
    assert note.startswith(f"Node n1: annotation {key!r} ('true') has no effect; it is spelled ")


def test_values_on_pods_are_noted_once_for_all_that_have_them() -> None:
    bad = {CA + "safe-to-evict-local-volumes": "cache, data"}
    (note,) = notes(*(k8s.pod(f"p{i}", annotations=bad) for i in range(5)))
    assert note.startswith("Pod default/p0, Pod default/p1, Pod default/p2 and 2 more: annotation ")
    assert "'cache, data'" in note


@pytest.mark.parametrize(("labels", "count"), [({}, 1), ({"karpenter.sh/nodepool": "default"}, 0)])
def test_where_karpenter_is_not_its_annotation_on_pods_is_noted(labels: dict[str, str], count: int) -> None:
    found = notes(k8s.node("n1", labels=labels), k8s.pod("p", node="n1", annotations={KARPENTER: "true"}))
    assert [CA + "safe-to-evict" in note for note in found] == [True] * count
