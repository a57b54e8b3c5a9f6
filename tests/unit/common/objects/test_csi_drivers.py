"""Drivers that a pod's volumes need on a node, and features that a pod needs of it."""

from typing import Any

import pytest

from tests.builders.kubernetes import (
    csi_driver,
    csi_node,
    node,
    node_group,
    persistent_volume,
    persistent_volume_claim,
    pod,
    storage_class,
)
from tests.unit.common.objects.reading import build

EBS, EBS_PLUGIN = "ebs.csi.aws.com", "kubernetes.io/aws-ebs"
INLINE = {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def mounting(volume: dict[str, Any]) -> dict[str, Any]:
    """Return a pod that mounts one volume."""
    return pod("p", spec={"volumes": [volume]})


def bound(source: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return a claim bound to a volume."""
    return [persistent_volume_claim("data", volume="pv1"), persistent_volume("pv1", source=source)]


def required_drivers(*objects: Any) -> list[str]:
    """Return what the volumes of the snapshot need on a node."""
    found = build(*objects)
    return [found.strings[one.required_driver] for one in found.volumes]


def drivers_of_nodes(*objects: Any) -> dict[str, list[str] | None]:
    """Return the drivers of each node, None if the snapshot does not say."""
    found = build(*objects)
    return {
        one.name: [found.strings[name] for name in one.volume_drivers.names] if one.HasField("volume_drivers") else None
        for one in found.nodes
    }


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([csi_driver(), mounting(CLAIM), *bound()], [EBS], id="bound volume of the driver"),
        pytest.param([csi_driver(required=False), mounting(CLAIM), *bound()], [""], id="driver that does not ask"),
        pytest.param([csi_driver(required=None), mounting(CLAIM), *bound()], [""], id="driver that says nothing"),
        pytest.param([csi_driver("other"), mounting(CLAIM), *bound()], [""], id="another driver asks"),
        pytest.param(
            [csi_driver(), mounting(CLAIM), *bound({"awsElasticBlockStore": {"volumeID": "vol-1"}})],
            [EBS_PLUGIN],
            id="in-tree volume",
        ),
        pytest.param([csi_driver(), mounting(INLINE), *bound()], [EBS_PLUGIN], id="inline in-tree disk"),
        pytest.param(
            [csi_driver(), mounting(CLAIM), persistent_volume_claim("data", storage_class="standard"), storage_class()],
            [EBS],
            id="unbound claim, by its class",
        ),
        pytest.param(
            [
                csi_driver(),
                mounting(CLAIM),
                persistent_volume_claim("data", storage_class="standard"),
                storage_class(provisioner=EBS_PLUGIN),
            ],
            [EBS_PLUGIN],
            id="unbound claim of an in-tree class",
        ),
        pytest.param(
            [csi_driver(), mounting({"name": "v", "csi": {"driver": EBS}}), *bound()], [], id="inline CSI volume"
        ),
    ],
)
def test_a_volume_needs_its_driver_if_the_driver_asks_for_it(objects: list[Any], expected: list[str]) -> None:
    assert required_drivers(node("n1"), *objects) == expected


def test_a_node_lists_the_required_drivers_it_has_and_their_plugins() -> None:
    nodes = [node(name) for name in ("both", "driver", "migrated", "neither", "unreported")]
    csi_nodes = [
        csi_node("both", {EBS: 3, "other": None}, migrated=[EBS_PLUGIN]),
        csi_node("driver", {EBS: None}),
        csi_node("migrated", {"other": 1}, migrated=[EBS_PLUGIN]),
        csi_node("neither", {}),
    ]
    assert drivers_of_nodes(*nodes, *csi_nodes, csi_driver()) == {
        "both": [EBS, EBS_PLUGIN],
        "driver": [EBS, EBS_PLUGIN],
        "migrated": [],
        "neither": [],
        "unreported": [EBS_PLUGIN],
    }


def test_nodes_say_nothing_of_drivers_where_none_is_required() -> None:
    assert drivers_of_nodes(node("n1"), csi_node("n1", {EBS: 3}), csi_driver(required=False)) == {"n1": None}


RESTARTS_ALL = {"restartPolicyRules": [{"action": "Restart"}, {"action": "RestartAllContainers"}]}
RESTARTS_ONE = {"restartPolicyRules": [{"action": "Restart"}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [], id="a plain pod"),
        pytest.param({"hostNetwork": True}, [], id="host network alone"),
        pytest.param({"hostUsers": False}, [], id="a user namespace alone"),
        pytest.param({"hostNetwork": True, "hostUsers": True}, [], id="host network with the host's users"),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False},
            ["UserNamespacesHostNetworkSupport"],
            id="host network with a user namespace",
        ),
        pytest.param({"containers": [RESTARTS_ONE]}, [], id="a rule for one container"),
        pytest.param(
            {"containers": [{}, RESTARTS_ALL]}, ["RestartAllContainersOnContainerExits"], id="a rule for all containers"
        ),
        pytest.param(
            {"initContainers": [RESTARTS_ALL]}, ["RestartAllContainersOnContainerExits"], id="of an init container"
        ),
    ],
)
def test_a_pod_needs_the_features_that_its_spec_implies(spec: dict[str, Any], expected: list[str]) -> None:
    found = build(node("n1"), pod("p", spec=spec))
    assert [found.strings[name] for name in found.pod_specs[0].node_features] == expected


def test_nodes_and_templates_of_node_groups_declare_features() -> None:
    declared = {"status": {"declaredFeatures": ["B", "A", "A"]}}
    group = node_group("g1")
    group["spec"]["template"] = {"status": {"allocatable": {"cpu": "4"}, "declaredFeatures": ["C"]}}
    found = build(node("n1", **declared), node("n2"), group)
    names = {one.name: [found.strings[name] for name in one.declared_features] for one in found.nodes}
    assert names == {"n1": ["A", "B"], "n2": []}
    assert [found.strings[name] for name in found.node_groups[0].template.declared_features] == ["C"]
