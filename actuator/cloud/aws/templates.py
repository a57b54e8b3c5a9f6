"""The template of a group of Auto Scaling: what every instance has that it may start.

Decides that each amount is the smallest over all instance types of the group, and that a label stands only where all
its nodes have it. Tags win over both. Source: CA, `cloudprovider/aws/aws_manager.go`, for the tags.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from trimtab.actuator.cloud.options import read_options
from trimtab.actuator.cloud.provider import GroupOptions, MachineType, NodeTemplate, Reservation
from trimtab.actuator.kube.cluster import Taint

TAGS: Final = "k8s.io/cluster-autoscaler/node-template/"
GPU_LABEL: Final = "k8s.amazonaws.com/accelerator"
GPU_RESOURCE: Final = "nvidia.com/gpu"
# Source: kubelet, `--max-pods`.
MAX_PODS: Final = 110
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64", "i386": "386"}
_TAINT: Final = re.compile(r"([^:]*):(NoSchedule|PreferNoSchedule|NoExecute)$")


class InstanceType(NamedTuple):
    """An instance type. `pods` = most that its network interfaces have addresses for."""

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
    known = [_ARCHITECTURES[one] for one in architectures if one in _ARCHITECTURES]
    return InstanceType(
        name=entry["InstanceType"],
        cpu=entry["VCpuInfo"]["DefaultVCpus"],
        memory_mib=entry["MemoryInfo"]["SizeInMiB"],
        # Source: Amazon EKS, "Maximum Pods per node".
        pods=interfaces * (addresses - 1) + 2 if interfaces and addresses else MAX_PODS,
        gpus=sum(one.get("Count") or 0 for one in gpus),
        gpu_name=f"{one['Manufacturer']}-{one['Name']}".lower() if (one := next(iter(gpus), None)) else "",
        architecture=next((one for one in ("amd64", "arm64", "386") if one in known), ""),
    )


def group_template(types: Sequence[InstanceType], zones: Sequence[str], tags: Mapping[str, str]) -> NodeTemplate:
    """Return the template of a group with at least one instance type. Raises `ValueError` naming a tag."""
    amounts = {
        "cpu": str(min(one.cpu for one in types)),
        "memory": f"{min(one.memory_mib for one in types)}Mi",
        "pods": str(min(MAX_PODS, *(one.pods for one in types))),
    }
    gpus = min(one.gpus for one in types)
    if gpus:
        amounts[GPU_RESOURCE] = str(gpus)
    tagged = _tagged(tags)
    resources = tagged.get("resources", {})
    amounts |= resources
    labels = {**_labels(types, zones), **tagged.get("label", {})}
    machines = tuple(
        MachineType(one.name, one.cpu * 1000, one.memory_mib << 20, one.pods, Reservation.EKS) for one in types
    )
    taints = _taints(tagged.get("taint", {}))
    return NodeTemplate(labels, taints, amounts, amounts, machines=machines, declared=frozenset(resources))


def group_options(tags: Mapping[str, str]) -> GroupOptions:
    """Return the options of a group's tags. Raises `ValueError` naming one."""
    return read_options(_tagged(tags).get("autoscaling-options", {}))


def _labels(types: Sequence[InstanceType], zones: Sequence[str]) -> dict[str, str]:
    labels = {"kubernetes.io/os": "linux"}
    uniform = {
        "kubernetes.io/arch": {one.architecture for one in types},
        "node.kubernetes.io/instance-type": {one.name for one in types},
        GPU_LABEL: {one.gpu_name for one in types},
        "topology.kubernetes.io/zone": set(zones),
        "topology.ebs.csi.aws.com/zone": set(zones),
        "topology.kubernetes.io/region": {_region(zone) for zone in zones},
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
    found: dict[str, dict[str, str]] = {}
    for key, value in tags.items():
        if key.startswith(TAGS):
            kind, _, name = key.removeprefix(TAGS).partition("/")
            if not name or kind not in ("label", "taint", "resources", "autoscaling-options"):
                raise ValueError(f"tag {key} must be label, taint, resources or autoscaling-options, with a name")
            found.setdefault(kind, {})[name] = value
    return found


def _taints(texts: Mapping[str, str]) -> tuple[Taint, ...]:
    taints = []
    for key, text in sorted(texts.items()):
        match = _TAINT.match(text)
        if match is None:
            raise ValueError(f"tag {TAGS}taint/{key}: {text!r} is not VALUE:EFFECT, such as web:NoSchedule")
        taints.append(Taint(key, match.group(1), match.group(2)))
    return tuple(taints)
