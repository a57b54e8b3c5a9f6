"""Resources of nodes are kept durably and reach the status; nothing is learned from unready or leaving nodes."""

from typing import Any, cast

import pytest

from tests.builders.kubernetes import Json
from tests.builders.node_group_controllers import GIB, MACHINE, TYPE, LearnerStage, machine_node
from trimtab.actuator.cloud.provider import CloudNodeTemplate
from trimtab.actuator.node_groups.reconciler import LOOK_MS
from trimtab.actuator.node_groups.resource_learner import AGAIN_MS, OLD_MS
from trimtab.actuator.service.external.servicer import ExternalServicer
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.k8s.v1 import core_pb2


def test_what_nodes_show_reaches_the_status_and_survives_a_restart_without_them() -> None:
    stage = LearnerStage(machine_node("n0"), machine_node("n1", memory="6990Mi"))
    # By the published rule, until a node has been read.
    assert stage.allocatable == {"cpu": "1930m", "memory": f"{(int(8 * GIB * 0.925) - (674 << 20))}", "pods": "29"}
    stage.look()
    assert stage.allocatable == {"cpu": "1930m", "memory": f"{6990 << 10}Ki", "pods": "29"}
    (seen,) = stage.known
    assert (seen.node_group, seen.instance_type, seen.capacity.memory_bytes) == ("g", TYPE, 7900 << 20)
    for name in ("n0", "n1"):
        with stage.looking():
            stage.cluster.delete_node(name, stage.cluster.get_node(name).uid)
    stage.restart()
    stage.look()
    assert stage.known == (seen,)
    assert stage.allocatable["memory"] == f"{6990 << 10}Ki"


@pytest.mark.parametrize(
    "odd",
    [
        machine_node("n1", memory="1Gi", ready=False),
        machine_node("n1", memory="1Gi", taints=["example.org/checks-network=:NoSchedule"]),
        machine_node("n1", memory="1Gi", taints=["node.kubernetes.io/not-ready=:NoSchedule"]),
        machine_node("n1", memory="1Gi", taints=[f"{HARD_TAINT_KEY}=1:NoSchedule"]),
        machine_node("n1", memory="1Gi", kind="m5.xlarge"),
    ],
    ids=["not ready", "taint by settings", "taint of its start", "being deleted", "another type"],
)
def test_nothing_is_learned_from_nodes_that_are_not_ready_or_leaving_or_of_another_type(odd: Json) -> None:
    stage = LearnerStage(machine_node("n0"), odd)
    stage.look()
    assert [(one.instance_type, one.allocatable.memory_bytes) for one in stage.known] == [(TYPE, 7000 << 20)]


def test_disk_and_devices_reach_the_status_and_a_device_that_never_comes_is_given_up_in_time() -> None:
    stage = LearnerStage(machine_node("n0", created="2027-01-15T08:00:00Z", others={"ephemeral-storage": "20Gi"}))
    own = stage.machines.template
    stage.machines.template = lambda group: _with_gpu(own(group))  # type: ignore[method-assign]
    stage.look()
    assert (stage.allocatable["ephemeral-storage"], stage.allocatable["nvidia.com/gpu"]) == (f"{20 << 20}Ki", "1")
    stage.look(OLD_MS - 2 * LOOK_MS)
    assert stage.allocatable["nvidia.com/gpu"] == "1"
    stage.look(2 * LOOK_MS)
    assert "nvidia.com/gpu" not in stage.allocatable, "otherwise the group would grow for ever for pods that need one"
    stage.show(machine_node("n0", others={"ephemeral-storage": "20Gi", "nvidia.com/gpu": "1"}))
    stage.look()
    assert stage.allocatable["nvidia.com/gpu"] == "1"


def _with_gpu(template: CloudNodeTemplate | None) -> CloudNodeTemplate | None:
    assert template is not None
    more = {"nvidia.com/gpu": "1"}
    return template._replace(capacity={**template.capacity, **more}, allocatable={**template.allocatable, **more})


def test_nothing_is_learned_from_a_group_of_two_types_that_the_cloud_does_not_distinguish() -> None:
    stage = LearnerStage(machine_node("n0"), machine_node("n1", kind="m5a.large"))
    stage.machines.machines = (MACHINE._replace(name=""),)
    stage.look()
    assert stage.known == ()
    alone = LearnerStage(machine_node("n0"))
    alone.machines.machines = (MACHINE._replace(name=""),)
    alone.look()
    assert [one.instance_type for one in alone.known] == [TYPE]
    assert alone.allocatable["memory"] == f"{7000 << 10}Ki"


def test_a_cluster_autoscaler_gets_the_same_data_as_the_status() -> None:
    stage = LearnerStage(machine_node("n0"))
    servicer = ExternalServicer(stage.actuator)
    stage.look()
    request = pb.NodeGroupTemplateNodeInfoRequest(id="g")
    with stage.looking():
        told = core_pb2.Node.FromString(servicer.NodeGroupTemplateNodeInfo(request, cast(Any, None)).node_bytes)
    assert {entry.key: entry.value.string for entry in told.status.allocatable} == stage.allocatable


def test_a_template_of_nodes_is_never_changed() -> None:
    stage = LearnerStage(machine_node("n0"))
    stage.machines.machines = ()
    stage.look()
    assert stage.known == ()
    assert stage.allocatable["memory"] == "8Gi"


def test_an_unavailable_cloud_is_called_again_and_compared_values_are_not_requested_each_time() -> None:
    stage = LearnerStage(machine_node("n0"))
    stage.machines.is_away = True
    stage.look()
    assert stage.known == ()
    stage.machines.is_away = False
    stage.look()
    assert len(stage.known) == 1
    revision, asked = stage.actuator.processor.read(lambda tracker, _: tracker.data.revision), stage.machines.asked
    stage.look()
    assert stage.machines.asked == asked
    stage.look(AGAIN_MS)
    assert stage.machines.asked == asked + 1
    assert stage.actuator.processor.read(lambda tracker, _: tracker.data.revision) == revision, "nothing new, no event"


def test_less_than_was_known_counts_at_once() -> None:
    stage = LearnerStage(machine_node("n0"))
    stage.look()
    stage.show(machine_node("n0", memory="6000Mi"))
    stage.look()
    assert [one.allocatable.memory_bytes for one in stage.known] == [6000 << 20]
    assert stage.allocatable["memory"] == f"{6000 << 10}Ki"
