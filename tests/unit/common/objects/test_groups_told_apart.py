"""Whatever may decide where a pod fits tells node groups apart, by construction: new fields, too."""

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tests.builders import kubernetes as k8s
from tests.builders.doubled_texts import doubled
from tests.builders.pod_group_objects import pod_group
from tests.builders.replaceable_groups import cluster, group
from trimtab.common.deltas.renumbering import STRING_FIELDS
from trimtab.common.objects.dominated_groups import (
    ALIASES,
    ALWAYS_READ,
    DESCRIBING,
    IRRELEVANT,
    labels_read,
    leave_out_dominated,
)
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

ZONE = "topology.kubernetes.io/zone"
NUMBERS = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_ENUM}


def twins() -> pb.ClusterSnapshot:
    """Return two groups of which the second is left out."""
    return cluster(group("a", "4", "16Gi", 0.2), group("b", "4", "16Gi", 0.2))


def put(message: Any, field: FieldDescriptor) -> None:
    """Give a field some value that it does not have."""
    if field.message_type is not None:
        inner = getattr(message, field.name)
        one = inner.add() if field.is_repeated else inner
        one.SetInParent()
    elif field.is_repeated:
        getattr(message, field.name).append("x" if field.type == FieldDescriptor.TYPE_STRING else 1)
    else:
        value: Any = 1 if field.cpp_type in NUMBERS else True if field.type == FieldDescriptor.TYPE_BOOL else "x"
        setattr(message, field.name, 1.0 if field.type == FieldDescriptor.TYPE_DOUBLE else value)


def compared(descriptor: Descriptor) -> list[FieldDescriptor]:
    return [field for field in descriptor.fields if field.name not in IRRELEVANT.get(descriptor.name, ())]


def test_of_equal_groups_one_is_left_out() -> None:
    assert leave_out_dominated(twins(), plan_pb2.PlanSettings()) == 1


@pytest.mark.parametrize("field", compared(pb.NodeGroup.DESCRIPTOR), ids=lambda field: field.name)
def test_every_field_of_a_group_tells_it_apart(field: FieldDescriptor) -> None:
    snapshot = twins()
    put(snapshot.node_groups[1], field)
    assert leave_out_dominated(snapshot, plan_pb2.PlanSettings()) == 0


@pytest.mark.parametrize("field", compared(pb.NodeTemplate.DESCRIPTOR), ids=lambda field: field.name)
def test_every_field_of_a_template_tells_groups_apart(field: FieldDescriptor) -> None:
    snapshot = twins()
    put(snapshot.node_groups[1].template, field)
    assert leave_out_dominated(snapshot, plan_pb2.PlanSettings()) == 0


@pytest.mark.parametrize("field", compared(pb.TemplateSlice.DESCRIPTOR), ids=lambda field: field.name)
def test_every_field_of_a_declared_device_tells_groups_apart(field: FieldDescriptor) -> None:
    snapshot = twins()
    for name in ("a", "b"):
        snapshot.devices.templates.add(node_group=name).slices.add()
    assert leave_out_dominated(snapshot, plan_pb2.PlanSettings()) == 1
    snapshot = twins()
    for name in ("a", "b"):
        snapshot.devices.templates.add(node_group=name).slices.add()
    put(snapshot.devices.templates[1].slices[0], field)
    assert leave_out_dominated(snapshot, plan_pb2.PlanSettings()) == 0


def test_a_group_with_declared_devices_is_not_replaced_by_one_without() -> None:
    snapshot = twins()
    snapshot.devices.templates.add(node_group="b").slices.add(driver="gpu", device_set=1)
    assert leave_out_dominated(snapshot, plan_pb2.PlanSettings()) == 0


def paths(descriptor: Descriptor, seen: tuple[str, ...] = ()) -> Iterator[tuple[FieldDescriptor, ...]]:
    """Yield how to reach each field of string indices from a message."""
    for field in descriptor.fields:
        inner = field.message_type
        if field.name in STRING_FIELDS.get(descriptor, ()) or field.type == FieldDescriptor.TYPE_STRING:
            yield (field,)
        elif inner is not None and not inner.GetOptions().map_entry and inner.name not in seen:
            yield from ((field, *rest) for rest in paths(inner, (*seen, descriptor.name)))


READERS = [path for path in paths(pb.ClusterSnapshot.DESCRIPTOR) if path[0].name not in DESCRIBING and len(path) > 1]


@pytest.mark.parametrize("path", READERS, ids=lambda path: ".".join(field.name for field in path))
def test_a_label_counts_wherever_its_key_occurs(path: tuple[FieldDescriptor, ...]) -> None:
    snapshot = pb.ClusterSnapshot(strings=["", "key"])
    message: Any = snapshot
    for field in path[:-1]:
        inner = getattr(message, field.name)
        message = inner.add() if field.is_repeated else inner
        message.SetInParent()
    last = path[-1]
    value = "key" if last.type == FieldDescriptor.TYPE_STRING else 1
    if last.is_repeated:
        getattr(message, last.name).append(value)
    else:
        setattr(message, last.name, value)
    own_dictionary = path[0].name in {"slack_requests", "capacity_requests", "devices"}
    is_index_of_another = own_dictionary and last.type != FieldDescriptor.TYPE_STRING
    assert ("key" in labels_read(snapshot, plan_pb2.PlanSettings())) is not is_index_of_another


def test_the_topology_key_of_a_gang_tells_zones_apart() -> None:
    zones = group("z1", "4", "16Gi", 0.2, zone="z1"), group("z2", "4", "16Gi", 0.1, zone="z2")
    assert leave_out_dominated(cluster(*zones), plan_pb2.PlanSettings()) == 1
    snapshot = cluster(*zones, pod_group())
    snapshot.pod_groups[0].topology_key = list(snapshot.strings).index(ZONE)
    assert leave_out_dominated(snapshot, plan_pb2.PlanSettings()) == 0


def test_an_expander_that_looks_at_more_than_prices_keeps_all_groups() -> None:
    asked = plan_pb2.PlanSettings()
    asked.scale_up.expanders.append(plan_pb2.Expander.PRIORITY)
    assert leave_out_dominated(twins(), asked) == 0
    asked = plan_pb2.PlanSettings()
    asked.node_groups["b"].utilization_threshold = 0.5
    assert leave_out_dominated(twins(), asked) == 0


def random_groups(random: Random) -> list[dict[str, Any]]:
    objects = [
        group(
            f"g{at}", random.choice("248"), random.choice(("8Gi", "16Gi")), random.choice((0.1, 0.2)),
            zone=random.choice(("", "z1", "z2")),
            taints=random.choice(([], ["only=a:NoSchedule"])),
        )
        for at in range(10)
    ]  # fmt: skip
    pods = [
        k8s.pod("p"),
        k8s.pod("p", node_selector={ZONE: "z1"}),
        k8s.pod("p", spec={"topologySpreadConstraints": [k8s.spread(topology_key=ZONE)]}),
    ]
    return [*objects, random.choice(pods)]


@pytest.mark.parametrize("seed", range(40))
def test_indices_of_equal_texts_make_no_difference(seed: int) -> None:
    random = Random(seed)
    plain = cluster(*random_groups(random))
    other = doubled(plain, random)
    assert canonicalize(other).version == canonicalize(plain).version
    # Where indices alone differ a group may stay, but none goes that is needed.
    leave_out_dominated(plain, plan_pb2.PlanSettings())
    leave_out_dominated(other, plan_pb2.PlanSettings())
    assert {one.id for one in plain.node_groups} <= {one.id for one in other.node_groups}


KEY = re.compile(r'"([a-z0-9-]+(?:\.[a-z0-9-]+)+/[A-Za-z0-9._-]+)"')
NOT_OF_TEMPLATES = {
    # Taints.
    "node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable", "node.kubernetes.io/unreachable",
    "node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/unschedulable", "node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure", "cloud.google.com/impending-node-termination",
    # Annotations of pods and nodes, and labels of pods.
    "karpenter.sh/do-not-disrupt", "node-autoscaling.kubernetes.io/disruption-cost", "karpenter.sh/disruption-cost",
    "trimtab.dev/slack-gang",
    # Groups are similar whatever these say.
    "kubernetes.azure.com/agentpool", "alpha.eksctl.io/instance-id", "alpha.eksctl.io/nodegroup-name",
    "beta.kubernetes.io/fluentd-ds-ready", "eks.amazonaws.com/nodegroup", "k8s.amazonaws.com/eniConfig",
    "kops.k8s.io/instancegroup", "kubernetes.azure.com/consolidated-additional-properties",
    "kubernetes.azure.com/node-image-version", "topology.disk.csi.azure.com/zone", "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone", "topology.k8s.aws/zone-id",
    # New nodes have names of their own.
    "kubernetes.io/hostname",
}  # fmt: skip


def test_labels_that_planners_read_by_themselves_are_known() -> None:
    planner = Path(__file__).resolve().parents[4] / "planner"
    found = {key for path in planner.rglob("*.py") for key in KEY.findall(path.read_text(encoding="utf-8"))}
    known = {*ALWAYS_READ, *(key for pair in ALIASES for key in pair), *NOT_OF_TEMPLATES}
    assert found <= known
