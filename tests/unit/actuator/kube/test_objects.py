"""The fields of a node that the actuator reads, as the API server writes them."""

import json

import pytest

from tests.builders.kubernetes import Json
from trimtab.actuator.kube.cluster import NodeQuantities
from trimtab.actuator.kube.live import StoredNode, node_view
from trimtab.common.kubernetes.json_envelope import decode


def shown(labels: dict[str, str] | None, status: Json) -> tuple[str, NodeQuantities, NodeQuantities]:
    """Return instance type, capacity and allocatable."""
    metadata = {"name": "n1"} | ({"labels": labels} if labels is not None else {})
    view = node_view(decode(StoredNode, json.dumps({"metadata": metadata, "status": status}).encode()))
    return view.instance_type, view.capacity, view.allocatable


def test_amounts_are_as_the_node_writes_them() -> None:
    status = {
        "capacity": {"cpu": "2", "memory": "7934440Ki", "pods": "29", "nvidia.com/gpu": 1, "ephemeral-storage": "20Gi"},
        "allocatable": {"cpu": "1930m", "memory": 7417726976},
    }
    assert shown({"node.kubernetes.io/instance-type": "m5.large"}, status) == (
        "m5.large",
        NodeQuantities("2", "7934440Ki", "29", (("ephemeral-storage", "20Gi"), ("nvidia.com/gpu", "1"))),
        NodeQuantities("1930m", "7417726976", ""),
    )
    assert shown(None, {}) == ("", NodeQuantities(), NodeQuantities())


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"beta.kubernetes.io/instance-type": "old"}, "old"),
        ({"beta.kubernetes.io/instance-type": "old", "node.kubernetes.io/instance-type": "new"}, "new"),
        ({"node.kubernetes.io/instance-type": ""}, ""),
        ({}, ""),
    ],
    ids=["old label", "both", "empty", "none"],
)
def test_the_instance_type_is_that_of_the_label(labels: dict[str, str], expected: str) -> None:
    assert shown(labels, {})[0] == expected
