"""What AWS says of groups, kept for a while: groups and instance types, and their launches.

Decides when AWS is called. A group that cannot be read is reported once and has no template; the others go on.
Thread-safe. Seconds.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog

from trimtab.actuator.cloud.aws.api import Reader
from trimtab.actuator.cloud.aws.groups import AutoScalingGroup, Launches, read_group
from trimtab.actuator.cloud.options import read_options
from trimtab.actuator.cloud.provider import CloudNodeTemplate, CloudRefusedError, GroupOptions, MachineType, Reservation
from trimtab.actuator.cloud.table import AwsSettings
from trimtab.actuator.kube.cluster import TaintView
from trimtab.common.kubernetes.signals import clouds, cluster_autoscaler, well_known

TAGS: Final = cluster_autoscaler.AWS_TEMPLATE.key
GPU_LABEL: Final = clouds.AWS_ACCELERATOR.key
GPU_RESOURCE: Final = "nvidia.com/gpu"
# Source: kubelet, `--max-pods`.
MAX_PODS: Final = 110
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64", "i386": "386"}
_TAINT: Final = re.compile(r"([^:]*):(NoSchedule|PreferNoSchedule|NoExecute)$")

log = structlog.get_logger("aws")
# Source: AWS, limits of DescribeAutoScalingGroups and DescribeInstanceTypes.
_GROUPS_PER_CALL: Final = 50
_TYPES_PER_CALL: Final = 100


class InstanceType(NamedTuple):
    """An instance type. cpu : virtual CPUs; memory_mib : MiB; pods : most that its network interfaces have addresses
    for; gpus : their number; gpu_name : of their type, "" = none; architecture : as Kubernetes has it name : such as
    "m5.large".
    """

    name: str
    cpu: int
    memory_mib: int
    pods: int
    gpus: int
    gpu_name: str
    architecture: str


def read_type(entry: Mapping[str, Any]) -> InstanceType:
    """Return the type of an entry of `DescribeInstanceTypes`."""
    gpus = (entry.get("GpuInfo") or {}).get("Gpus") or ()
    network = entry.get("NetworkInfo") or {}
    interfaces, addresses = network.get("MaximumNetworkInterfaces") or 0, network.get("Ipv4AddressesPerInterface") or 0
    architectures = (entry.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()
    known = [_ARCHITECTURES[architecture] for architecture in architectures if architecture in _ARCHITECTURES]
    return InstanceType(
        name=entry["InstanceType"],
        cpu=entry["VCpuInfo"]["DefaultVCpus"],
        memory_mib=entry["MemoryInfo"]["SizeInMiB"],
        # Source: Amazon EKS, "Maximum Pods per node".
        pods=interfaces * (addresses - 1) + 2 if interfaces and addresses else MAX_PODS,
        gpus=sum(gpu.get("Count") or 0 for gpu in gpus),
        gpu_name=f"{one['Manufacturer']}-{one['Name']}".lower() if (one := next(iter(gpus), None)) else "",
        architecture=next((name for name in ("amd64", "arm64", "386") if name in known), ""),
    )


def group_template(types: Sequence[InstanceType], zones: Sequence[str], tags: Mapping[str, str]) -> CloudNodeTemplate:
    """Return the template of a group with at least one instance type. Raises `ValueError` naming a tag."""
    amounts = {
        "cpu": str(min(machine.cpu for machine in types)),
        "memory": f"{min(machine.memory_mib for machine in types)}Mi",
        "pods": str(min(MAX_PODS, *(machine.pods for machine in types))),
    }
    gpus = min(machine.gpus for machine in types)
    if gpus:
        amounts[GPU_RESOURCE] = str(gpus)
    tagged = _tagged(tags)
    resources = tagged.get("resources", {})
    amounts |= resources
    labels = {**_labels(types, zones), **tagged.get("label", {})}
    machines = tuple(
        MachineType(machine.name, machine.cpu * 1000, machine.memory_mib << 20, machine.pods, Reservation.EKS)
        for machine in types
    )
    taints = _taints(tagged.get("taint", {}))
    return CloudNodeTemplate(labels, taints, amounts, amounts, machines=machines, declared=frozenset(resources))


def group_options(tags: Mapping[str, str]) -> GroupOptions:
    """Return the options of a group's tags. Raises `ValueError` naming one."""
    return read_options(_tagged(tags).get("autoscaling-options", {}))


def _labels(types: Sequence[InstanceType], zones: Sequence[str]) -> dict[str, str]:
    labels = {well_known.OS.key: "linux"}
    uniform = {
        well_known.ARCH.key: {node_type.architecture for node_type in types},
        well_known.INSTANCE_TYPE.key: {node_type.name for node_type in types},
        GPU_LABEL: {node_type.gpu_name for node_type in types},
        well_known.ZONE.key: set(zones),
        clouds.AWS_EBS_ZONE.key: set(zones),
        well_known.REGION.key: {_region(zone) for zone in zones},
    }
    for label, values in uniform.items():
        if len(values) == 1 and (value := next(iter(values))):
            labels[label] = value
    return labels


def _region(zone: str) -> str:
    """Return the region of a zone, also of a local one such as us-west-2-lax-1a."""
    match = re.match(r"[a-z]+(?:-[a-z]+)+-\d+", zone)
    return match.group() if match else ""


def _tagged(tags: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the tags of templates by kind, then name."""
    tagged: dict[str, dict[str, str]] = {}
    for key, value in tags.items():
        if key.startswith(TAGS):
            kind, _, name = key.removeprefix(TAGS).partition("/")
            if not name or kind not in ("label", "taint", "resources", "autoscaling-options"):
                raise ValueError(f"tag {key} must be label, taint, resources or autoscaling-options, with a name")
            tagged.setdefault(kind, {})[name] = value
    return tagged


def _taints(texts: Mapping[str, str]) -> tuple[TaintView, ...]:
    taints = []
    for key, text in sorted(texts.items()):
        match = _TAINT.match(text)
        if match is None:
            raise ValueError(f"tag {TAGS}taint/{key}: {text!r} is not VALUE:EFFECT, such as web:NoSchedule")
        taints.append(TaintView(key, match.group(1), match.group(2)))
    return tuple(taints)


class Catalogue:
    """Groups and what their instances are."""

    def __init__(self, reader: Reader, settings: AwsSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._settings = settings
        self._clock = clock
        self._lock = threading.RLock()
        self._groups: dict[str, AutoScalingGroup] = {}
        # The group of each instance, by provider id, of these groups; None = not looked up yet.
        self._owners: tuple[Mapping[str, AutoScalingGroup], dict[str, str]] | None = None
        self._read_s: float | None = None
        self.launches = Launches(reader, clock)
        # Instance types never change; None = AWS does not know it.
        self._types: dict[str, InstanceType | None] = {}
        self._reported: set[str] = set()

    def forget(self) -> None:
        """Read the groups again when they are next asked for, and the latest versions of launch templates."""
        with self._lock:
            self._read_s = None
        self.launches.forget()

    def groups(self) -> Mapping[str, AutoScalingGroup]:
        """Return all groups, by name. Raises `CloudError`."""
        with self._lock:
            now_s = self._clock()
            if self._read_s is None or now_s - self._read_s >= self._settings.max_age_s:
                groups = [read_group(entry) for entry in self._entries()]
                self._groups = {group.name: group for group in sorted(groups, key=lambda group: group.name)}
                self._read_s = now_s
                for missing in sorted(set(self._settings.groups) - self._groups.keys()):
                    self.report(missing, "AWS has no such Auto Scaling group, or it lacks a tag from --aws-tags")
            return self._groups

    def owners(self) -> Mapping[str, str]:
        """Return the group of each instance of all groups, by provider id. Raises `CloudError`."""
        with self._lock:
            groups = self.groups()
            if self._owners is None or self._owners[0] is not groups:
                found = {member.provider_id: group.name for group in groups.values() for member in group.members}
                self._owners = groups, found
            return self._owners[1]

    def now(self, name: str) -> AutoScalingGroup:
        """Return a group as it is now. Raises `CloudRefusedError` when it is not a selected one, `CloudError`."""
        if name in self.groups():
            entries = self._reader.pages(
                "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", AutoScalingGroupNames=[name]
            )
            if entries:
                group = read_group(entries[0])
                with self._lock:
                    self._groups = {**self._groups, name: group}
                return group
        raise CloudRefusedError(f"Auto Scaling group {name} does not exist or is not managed")

    def types_of(self, group: AutoScalingGroup) -> list[InstanceType]:
        """Return the instance types of a group. Raises `ValueError` when they are not known, `CloudError`."""
        names = self.launches.types_of(group)
        self._read_types(names)
        with self._lock:
            unknown = [name for name in names if self._types.get(name) is None]
            if unknown:
                raise ValueError(f"AWS does not know the instance type {', '.join(unknown)}")
            return [one for name in names if (one := self._types[name]) is not None]

    def report(self, group: str, problem: str) -> None:
        """Log a problem of a group, once."""
        with self._lock:
            if f"{group}: {problem}" in self._reported:
                return
            self._reported.add(f"{group}: {problem}")
        log.warning("group can be used only in part", node_group=group, detail=problem)

    def _entries(self) -> list[Any]:
        """Return the entries of the groups to act on."""
        filters = [
            {"Name": f"tag:{key}", "Values": [value]} if value else {"Name": "tag-key", "Values": [key]}
            for key, value in sorted(self._settings.tags.items())
        ]
        tagged: dict[str, Any] = {"Filters": filters} if filters else {}
        names = list(self._settings.groups)
        entries: list[Any] = []
        for start in range(0, max(1, len(names)), _GROUPS_PER_CALL):
            some = names[start : start + _GROUPS_PER_CALL]
            wanted = {"AutoScalingGroupNames": some} if some else {}
            entries += self._reader.pages(
                "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups", **wanted, **tagged
            )
        return [entry for entry in entries if not entry.get("Status")]

    def _read_types(self, names: Sequence[str]) -> None:
        """Read the types that are not known yet; one that AWS does not know spoils no other."""
        with self._lock:
            missing = sorted(set(names) - self._types.keys())
        for start in range(0, len(missing), _TYPES_PER_CALL):
            some = missing[start : start + _TYPES_PER_CALL]
            # A filter, unlike a list of types, does not refuse names that do not exist.
            entries = self._reader.pages(
                "ec2",
                "describe_instance_types",
                "InstanceTypes",
                Filters=[{"Name": "instance-type", "Values": some}],
            )
            types = {instance_type.name: instance_type for instance_type in map(read_type, entries)}
            with self._lock:
                self._types.update({name: types.get(name) for name in some})
