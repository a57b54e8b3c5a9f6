"""The template of a group of Auto Scaling: what every instance has that it may start.

Decides that each amount is the smallest over all instance types of the group, and that a label stands only where all
its nodes have it. Tags win over both. Source: CA, `cloudprovider/aws/aws_manager.go`, for the tags.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from trimtab.actuator.cloud.options import read_options
from trimtab.actuator.cloud.provider import CloudNodeTemplate, GroupOptions, MachineType, Reservation
from trimtab.actuator.kube.cluster import TaintView
from trimtab.common.kubernetes.signals import clouds, cluster_autoscaler, well_known

TAGS: Final = cluster_autoscaler.AWS_TEMPLATE.key
GPU_LABEL: Final = clouds.AWS_ACCELERATOR.key
GPU_RESOURCE: Final = "nvidia.com/gpu"
# Source: kubelet, `--max-pods`.
MAX_PODS: Final = 110
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64", "i386": "386"}
_TAINT: Final = re.compile(r"([^:]*):(NoSchedule|PreferNoSchedule|NoExecute)$")


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
