"""MachineDeployments, MachinePools and Machines as values.

Decides which objects are node groups (both annotations for sizes are there, and the maximum is above 0), which of
their Machines are being deleted, and what annotations say of a new node. Source: CA, `cloudprovider/clusterapi`;
Cluster API, `DeleteMachineAnnotation` and the phases of Machines.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trimtab.actuator.cloud.options import machines_of, read_options
from trimtab.actuator.cloud.provider import (
    CloudNodeTemplate,
    GroupOptions,
    Instance,
    InstanceError,
    InstanceState,
    NodeGroupView,
    Reservation,
)
from trimtab.actuator.kube.cluster import TaintView
from trimtab.common.kubernetes.kinds.cluster_api import Machine, MachineLabels, MachineStatus
from trimtab.common.kubernetes.signals import cluster_autoscaler, ours, well_known

Json = dict[str, Any]
KINDS: Final = ("MachineDeployment", "MachinePool")
MIN_SIZE: Final = cluster_autoscaler.NODE_GROUP_MIN.key
MAX_SIZE: Final = cluster_autoscaler.NODE_GROUP_MAX.key
OPTIONS: Final = cluster_autoscaler.GROUP_OPTIONS.key
CAPACITY: Final = cluster_autoscaler.TEMPLATE_CAPACITY.key
PRICE: Final = ours.PRICE_PER_HOUR.key
# What we have done to a group, written in the same patch as its size: uids of machines, tokens of growths.
DELETED: Final = ours.DELETED_MACHINES.key
GROWN: Final = ours.GROWTH_TOKENS.key
# Its value tells our marks from those of others; the controllers look at the name alone.
OUR_MARK: Final = "trimtab"
CLUSTER_LABEL: Final = cluster_autoscaler.CLUSTER_NAME.key
_AMOUNTS: Final = {"cpu": "cpu", "memory": "memory", "ephemeral-disk": "ephemeral-storage", "maxPods": "pods"}
_TAINT: Final = re.compile(r"([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)$")
DEFAULT_GPU: Final = "nvidia.com/gpu"
# Source: kubelet, `--max-pods`.
MAX_PODS: Final = "110"


class MachineGroup(NamedTuple):
    """A node group. `kind` : MachineDeployment or MachinePool; `version` : its resource version; sizes in nodes;
    `replicas` : requested ones. `namespace`, `name` : of the object in the management cluster; `min_size`, `max_size` :
    of its annotations; `annotations` : all of them, by key.
    """

    kind: str
    namespace: str
    name: str
    version: str
    min_size: int
    max_size: int
    replicas: int
    annotations: Mapping[str, str]
    # Of a MachinePool: provider ids of its instances, which need not have Machines.
    provider_ids: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return the id, as the Cluster Autoscaler has it."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    def done(self, annotation: str) -> tuple[str, ...]:
        """Return what an annotation of ours says was done."""
        return tuple(part for part in self.annotations.get(annotation, "").split(",") if part)


class MachineView(NamedTuple):
    """A Machine. `group` is the id of its node group; `is_marked` : goes first when the replicas are lowered, and
    `is_ours` : by our mark.

    One without uid stands for an instance of a MachinePool that has no Machine: nobody can choose that it goes.
    `namespace`, `name` : of the Machine in the management cluster.
    """

    namespace: str
    name: str
    uid: str
    group: str
    instance: Instance
    is_marked: bool
    is_ours: bool = False

    @property
    def early_id(self) -> str:
        """Return the id of its instance before it has a provider id."""
        return early_id(self.namespace, self.name)


def early_id(namespace: str, name: str) -> str:
    """Return the id of a Machine's instance before it has a provider id."""
    return f"clusterapi://{namespace}/{name}"


def machine_view(item: Machine) -> MachineView | None:
    """Return a Machine as the cloud knows it; None = it belongs to no MachineDeployment or MachinePool."""
    meta = item.metadata
    labels = meta.labels or MachineLabels()
    if labels.deployment:
        group = f"MachineDeployment/{meta.namespace}/{labels.deployment}"
    elif labels.pool:
        group = f"MachinePool/{meta.namespace}/{labels.pool}"
    else:
        return None
    mark = meta.annotations.mark if meta.annotations else None
    # A Machine has no provider id before its infrastructure is there.
    provider_id = (item.spec and item.spec.provider_id) or early_id(meta.namespace, meta.name)
    state, error = _state(meta.deletion_timestamp, item.status or MachineStatus())
    instance = Instance(provider_id, state, error)
    return MachineView(meta.namespace, meta.name, meta.uid, group, instance, mark is not None, mark == OUR_MARK)


def _state(deleted: str | None, status: MachineStatus) -> tuple[InstanceState, InstanceError | None]:
    if deleted or status.phase in ("Deleting", "Deleted"):
        return InstanceState.DELETING, None
    if status.phase == "Running" or status.node_ref is not None:
        return InstanceState.RUNNING, None
    if status.phase == "Failed" or status.failure_reason:
        code = status.failure_reason or "MachineFailed"
        return InstanceState.CREATING, InstanceError(code, status.failure_message or code)
    return InstanceState.CREATING, None


def read_group(kind: str, item: Json) -> MachineGroup | None:
    """Return the node group of an object; None = it is none. Raises `ValueError` naming an annotation."""
    meta = item["metadata"]
    annotations = meta.get("annotations") or {}
    if MIN_SIZE not in annotations or MAX_SIZE not in annotations:
        return None
    low, high = (_whole(annotations, name) for name in (MIN_SIZE, MAX_SIZE))
    if low > high:
        raise ValueError(f"annotation {MIN_SIZE} is {low}, more than the maximum {high}")
    spec = item.get("spec") or {}
    replicas = spec.get("replicas")
    group = MachineGroup(
        kind=kind,
        namespace=meta.get("namespace") or "",
        name=meta["name"],
        version=str(meta.get("resourceVersion") or ""),
        min_size=low,
        max_size=high,
        replicas=1 if replicas is None else int(replicas),
        annotations=annotations,
        provider_ids=tuple(map(str, spec.get("providerIDList") or ())),
    )
    return group if high else None


class GroupMembers(NamedTuple):
    """A node group with its Machines, each in the state that follows from both. `waiting` : some of them are being
    deleted by a decrease of the replicas that the controller is yet to carry out. `machines` : those of the group, with
    stand-ins for instances without a Machine.
    """

    group: MachineGroup
    machines: tuple[MachineView, ...] = ()
    waiting: bool = False

    @property
    def staying(self) -> list[MachineView]:
        """Return the Machines that are not being deleted."""
        return [machine for machine in self.machines if machine.instance.state is not InstanceState.DELETING]

    @property
    def view(self) -> NodeGroupView:
        """Return the sizes; below its instances without Machine the group cannot go, as none can be chosen."""
        group = self.group
        fixed_count = sum(not machine.uid for machine in self.machines)
        min_size = min(group.max_size, max(group.min_size, fixed_count))
        return NodeGroupView(group.id, min_size, group.max_size, group.replicas, len(self.machines))


def with_members(groups: Iterable[MachineGroup], machines: Iterable[MachineView]) -> dict[str, GroupMembers]:
    """Return the groups with their Machines, by id. Machines of no group are left out.

    A marked Machine that our decrease of the replicas names is being deleted for as long as there are more Machines
    than replicas: then the controller is yet to remove it. Otherwise another one has gone, or the group has grown, in
    its place, and it stays.
    """
    of_group: dict[str, list[MachineView]] = {}
    for machine in machines:
        of_group.setdefault(machine.group, []).append(machine)
    return {group.id: _members(group, of_group.get(group.id, [])) for group in groups}


def _members(group: MachineGroup, machines: Sequence[MachineView]) -> GroupMembers:
    if not machines:
        # The instances of a MachinePool that has no Machines. They run, as far as the pool says.
        alone = (Instance(provider_id, InstanceState.RUNNING) for provider_id in group.provider_ids)
        return GroupMembers(
            group,
            tuple(MachineView(group.namespace, "", "", group.id, instance, is_marked=False) for instance in alone),
        )
    members = GroupMembers(group, tuple(machines))
    noted = set(group.done(DELETED))
    leaving = {machine.uid for machine in members.staying if machine.is_marked and machine.uid in noted}
    if not leaving or len(members.staying) <= group.replicas:
        return members
    resolved = (
        machine._replace(instance=Instance(machine.instance.id, InstanceState.DELETING))
        if machine.uid in leaving
        else machine
        for machine in machines
    )
    return GroupMembers(group, tuple(resolved), waiting=True)


def group_template(group: MachineGroup) -> CloudNodeTemplate | None:
    """Return the template that annotations give; None = they give no cpu or no memory. Raises `ValueError`."""
    given = {key.removeprefix(CAPACITY): value for key, value in group.annotations.items() if key.startswith(CAPACITY)}
    if "cpu" not in given or "memory" not in given:
        return None
    amounts = {resource: given[name] for name, resource in _AMOUNTS.items() if name in given}
    amounts.setdefault("pods", MAX_PODS)
    if given.get("gpu-count", "0") != "0":
        amounts[given.get("gpu-type", DEFAULT_GPU)] = given["gpu-count"]
    labels = {well_known.OS.key: "linux"}
    for part in _parts(given.get("labels", "")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"annotation {CAPACITY}labels: {part!r} is not KEY=VALUE")
        labels[key] = value
    taints = []
    for part in _parts(given.get("taints", "")):
        match = _TAINT.match(part)
        if match is None:
            raise ValueError(f"annotation {CAPACITY}taints: {part!r} is not KEY=VALUE:EFFECT")
        taints.append(TaintView(match.group(1), match.group(2) or "", match.group(3)))
    machines = machines_of(labels, {**amounts, "pods": given.get("maxPods", "0")}, Reservation.KUBELET)
    # Nodes have less of cpu and memory than machines; what else is given is meant for nodes.
    declared = amounts.keys() - {"cpu", "memory", *(() if "maxPods" in given else ("pods",))}
    return CloudNodeTemplate(labels, tuple(taints), amounts, amounts, machines=machines, declared=frozenset(declared))


def group_price(group: MachineGroup) -> float | None:
    """Return the price that an annotation gives; None = none does. Raises `ValueError`."""
    text = group.annotations.get(PRICE)
    if text is None:
        return None
    price = float(text)
    if not 0 <= price < float("inf"):
        raise ValueError(f"annotation {PRICE}: {text!r} is not a price")
    return price


def group_options(group: MachineGroup) -> GroupOptions:
    """Return the options that annotations give. Raises `ValueError` naming one."""
    return read_options(
        {key.removeprefix(OPTIONS): value for key, value in group.annotations.items() if key.startswith(OPTIONS)}
    )


def _whole(annotations: Mapping[str, str], name: str) -> int:
    text = annotations[name]
    if not text.isdecimal():
        raise ValueError(f"annotation {name}: {text!r} is not a whole number of at least 0")
    return int(text)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
