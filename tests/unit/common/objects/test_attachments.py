"""Attached volumes that no pod mounts take room of a node's attach limits."""

from typing import Any

import pytest

from tests.builders.kubernetes import (
    csi_node,
    node,
    persistent_volume,
    persistent_volume_claim,
    pod,
    storage_class,
    volume_attachment,
)
from tests.unit.common.objects.reading import build

EBS = "ebs.csi.aws.com"
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
NODE = [node("n1"), node("n2"), csi_node("n1", {EBS: 3, "other": 3}), csi_node("n2", {EBS: 3})]
BOUND = [persistent_volume_claim("data", volume="pv1"), persistent_volume("pv1"), volume_attachment("a1", "n1", "pv1")]


def limits(*objects: Any) -> dict[str, dict[str, int]]:
    """Return the attach limits of each node by driver."""
    found = build(*NODE, *objects)
    return {one.name: {found.strings[at.driver]: at.count for at in one.attach_limits} for one in found.nodes}


def terminating(attachment: dict[str, Any]) -> dict[str, Any]:
    """Return an attachment that is being removed."""
    return attachment | {"metadata": {**attachment["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("objects", "left"),
    [
        pytest.param(BOUND, 2, id="no pod"),
        pytest.param([*BOUND, pod("p", node="n1", volumes=[CLAIM])], 3, id="a pod here mounts it"),
        pytest.param([*BOUND, pod("p", node="n2", volumes=[CLAIM])], 2, id="a pod elsewhere mounts it"),
        pytest.param([*BOUND, pod("p", volumes=[CLAIM])], 2, id="a pod that waits mounts it"),
        pytest.param([*BOUND, pod("p", node="n1", volumes=[CLAIM], phase="Failed")], 2, id="a pod that has ended"),
        pytest.param([*BOUND, pod("p", namespace="b", node="n1", volumes=[CLAIM])], 2, id="of another namespace"),
        pytest.param([*BOUND[:2], terminating(BOUND[2])], 2, id="it is being detached"),
        pytest.param([*BOUND, volume_attachment("a2", "n1", "pv1")], 2, id="attached twice"),
        pytest.param([*BOUND, persistent_volume("twin", handle="vol-pv1"), volume_attachment("a2", "n1", "twin")], 2,
                     id="two volumes with one handle"),
        pytest.param([volume_attachment("a1", "n1", "gone")], 3, id="its volume is gone"),
        pytest.param([volume_attachment("a1", "n1", None)], 3, id="its volume is written in a pod"),
        pytest.param([volume_attachment("a1", "n1", "pv1", ""), BOUND[1]], 3, id="no driver"),
        pytest.param([volume_attachment("a1", "n1", "pv1", "other"), BOUND[1]], 3, id="another driver"),
        pytest.param([persistent_volume("pv1", source={"awsElasticBlockStore": {"volumeID": "v"}}), BOUND[2]], 3,
                     id="an in-tree volume"),
        pytest.param([one for i in range(5) for one in (persistent_volume(f"pv{i}"),
                      volume_attachment(f"a{i}", "n1", f"pv{i}"))], 0, id="more than the limit"),
    ],
)  # fmt: skip
def test_a_node_offers_less_by_what_is_attached_and_not_mounted(objects: list[Any], left: int) -> None:
    found = limits(*objects)
    assert found["n1"][EBS] == left
    assert found["n2"] == {EBS: 3}


def test_an_attachment_counts_for_its_own_driver() -> None:
    assert limits(volume_attachment("a1", "n1", "pv1", "other"), BOUND[1])["n1"] == {EBS: 3, "other": 2}


def test_an_ephemeral_volume_counts_as_mounted_although_its_claim_is_made_anew() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    claim = persistent_volume_claim("p-scratch", volume="pv1", storage_class="standard")
    claim["metadata"]["ownerReferences"] = [owner]
    mounting = pod("p", node="n1", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}])
    assert limits(claim, *BOUND[1:], mounting, storage_class())["n1"][EBS] == 3
