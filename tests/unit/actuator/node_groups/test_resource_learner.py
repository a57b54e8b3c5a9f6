"""Resources of nodes are kept durably and reach the status; nothing is learned from unready or leaving nodes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.builders.actuator import SETTINGS, Stage
from tests.builders.kubernetes import Json, node, node_group
from trimtab.actuator.cloud.provider import CloudError, MachineType, NodeTemplate, Reservation
from trimtab.actuator.kube.cluster import HARD_TAINT_KEY
from trimtab.actuator.node_groups.reconciler import LOOK_MS, NodeGroupReconciler
from trimtab.actuator.node_groups.resource_learner import AGAIN_MS, OLD_MS
from trimtab.actuator.node_groups.settings import GroupSettings
from trimtab.actuator.service.external.servicer import ExternalServicer
from trimtab.actuator.tracker.states import SeenType
from trimtab.clients.simulation.cloud.provider import MemoryCloud
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.k8s.v1 import core_pb2

GIB = 1 << 30
TYPE = "m5.large"
MACHINE = MachineType(TYPE, 2000, 8 * GIB, 29, Reservation.EKS)


class Machines(MemoryCloud):
    """The simulated cluster's cloud, which knows only the machines of its groups."""

    machines: Sequence[MachineType] = (MACHINE,)
    is_away = False
    asked = 0

    def template(self, group: str) -> NodeTemplate | None:
        self.asked += 1
        if self.is_away:
            raise CloudError("throttled")
        found = super().template(group)
        return None if found is None else found._replace(machines=self.machines)


def machine_node(name: str, memory: str = "7000Mi", **more: Json) -> Json:
    """Return a node of the machine. `others` : further resources."""
    others = more.pop("others", {})
    capacity = {"cpu": "2", "memory": "7900Mi", "pods": "29"} | others
    labels = {"node.kubernetes.io/instance-type": more.pop("kind", TYPE)}
    made = node(name, cpu="1930m", memory=memory, pods="29", capacity=capacity, labels=labels, **more)
    made["status"]["allocatable"] |= others
    return made


class Taught(Stage):
    """A stage that learns from its nodes."""

    def __init__(self, *nodes: Json) -> None:
        names = [one["metadata"]["name"] for one in nodes]
        template = node("template", cpu="2", memory="8Gi", pods="29")
        group = node_group("g", 0, 9, target=len(names), nodes=names, template=template)
        super().__init__([*nodes, group], replace(SETTINGS, groups=GroupSettings(not_ready_taints=("example.org/*",))))
        self.machines = Machines(self.cluster)
        self.cloud = self.machines
        self.restart()

    def restart(self, die_at: int | None = None) -> None:
        self.boot(die_at)
        self.reconciler = NodeGroupReconciler(
            self.actuator.processor,
            self.cluster,
            self.cloud,
            self.actuator.settings.groups,
            self.actuator.settings.present_limits,
        )

    def show(self, changed: Json) -> None:
        """Change what a node reports."""
        with self.cluster.transaction() as state:
            state.put(changed)

    def look(self, after_ms: int = LOOK_MS) -> None:
        self.run_for(after_ms / 1000)
        self.reconciler.step()

    @property
    def known(self) -> tuple[SeenType, ...]:
        return self.actuator.processor.read(lambda tracker, _: tracker.data.node_types)

    @property
    def allocatable(self) -> dict[str, str]:
        (group,) = self.status().node_groups
        return dict(group.template.allocatable)


def test_what_nodes_show_reaches_the_status_and_survives_a_restart_without_them() -> None:
    stage = Taught(machine_node("n0"), machine_node("n1", memory="6990Mi"))
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
def test_nodes_that_are_not_ready_or_going_or_of_another_type_teach_nothing(odd: Json) -> None:
    stage = Taught(machine_node("n0"), odd)
    stage.look()
    assert [(one.instance_type, one.allocatable.memory_bytes) for one in stage.known] == [(TYPE, 7000 << 20)]


def test_disk_and_devices_reach_the_status_and_a_device_that_never_comes_is_given_up_in_time() -> None:
    stage = Taught(machine_node("n0", created="2027-01-15T08:00:00Z", others={"ephemeral-storage": "20Gi"}))
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


def _with_gpu(template: NodeTemplate | None) -> NodeTemplate | None:
    assert template is not None
    more = {"nvidia.com/gpu": "1"}
    return template._replace(capacity={**template.capacity, **more}, allocatable={**template.allocatable, **more})


def test_a_group_of_two_types_that_the_cloud_does_not_tell_apart_teaches_nothing() -> None:
    stage = Taught(machine_node("n0"), machine_node("n1", kind="m5a.large"))
    stage.machines.machines = (MACHINE._replace(name=""),)
    stage.look()
    assert stage.known == ()
    alone = Taught(machine_node("n0"))
    alone.machines.machines = (MACHINE._replace(name=""),)
    alone.look()
    assert [one.instance_type for one in alone.known] == [TYPE]
    assert alone.allocatable["memory"] == f"{7000 << 10}Ki"


def test_a_cluster_autoscaler_gets_the_same_data_as_the_status() -> None:
    stage = Taught(machine_node("n0"))
    servicer = ExternalServicer(stage.actuator)
    stage.look()
    request = pb.NodeGroupTemplateNodeInfoRequest(id="g")
    with stage.looking():
        told = core_pb2.Node.FromString(servicer.NodeGroupTemplateNodeInfo(request, cast(Any, None)).node_bytes)
    assert {entry.key: entry.value.string for entry in told.status.allocatable} == stage.allocatable


def test_a_template_of_nodes_is_never_changed() -> None:
    stage = Taught(machine_node("n0"))
    stage.machines.machines = ()
    stage.look()
    assert stage.known == ()
    assert stage.allocatable["memory"] == "8Gi"


def test_an_unavailable_cloud_is_called_again_and_compared_values_are_not_requested_each_time() -> None:
    stage = Taught(machine_node("n0"))
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
    stage = Taught(machine_node("n0"))
    stage.look()
    stage.show(machine_node("n0", memory="6000Mi"))
    stage.look()
    assert [one.allocatable.memory_bytes for one in stage.known] == [6000 << 20]
    assert stage.allocatable["memory"] == f"{6000 << 10}Ki"
