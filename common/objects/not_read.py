"""Notes about objects of kinds that are not read: which can never matter, and what it means for the others. Decides
nothing."""

from typing import Final

from trimtab.common.objects.objects import Objects, kind_problem

_KUBERNETES: Final = ("", "apps", "autoscaling", "batch", "events.k8s.io", "extensions", "policy")
"""API groups of Kubernetes beside those that end in ".k8s.io"; what is not read of them never matters."""
_KUEUE: Final = "quotas and admission do not count here; pods that it holds back wait with a scheduling gate"
_MACHINES: Final = "no node group is taken from it; describe node groups with NodeGroup"
_OLD_KARPENTER: Final = "an old version of Karpenter's API; export nodepools and nodeclaims"
_MEANINGS: Final = {
    ("", "LimitRange"): "its defaults do not count for pods that are yet to be made",
    ("cluster.x-k8s.io", "MachineDeployment"): _MACHINES,
    ("cluster.x-k8s.io", "MachinePool"): _MACHINES,
    ("cluster.x-k8s.io", "MachineSet"): _MACHINES,
    ("karpenter.sh", "Machine"): _OLD_KARPENTER,
    ("karpenter.sh", "Provisioner"): _OLD_KARPENTER,
    ("kueue.x-k8s.io", "ClusterQueue"): _KUEUE,
    ("kueue.x-k8s.io", "LocalQueue"): _KUEUE,
    ("kueue.x-k8s.io", "ResourceFlavor"): _KUEUE,
    ("kueue.x-k8s.io", "Workload"): _KUEUE,
    ("machine.openshift.io", "MachineAutoscaler"): _MACHINES,
    ("machine.openshift.io", "MachineSet"): _MACHINES,
    ("scheduling.volcano.sh", "Queue"): "its limits hold no pod back here",
    ("storage.k8s.io", "CSIStorageCapacity"): "a volume that waits for its first pod fits whatever room its driver has",
    ("storage.k8s.io", "VolumeAttachment"): "volumes that are attached without a pod do not count against limits",
}
"""What it means that a kind is not read, by API group and kind."""


def not_read_notes(objects: Objects) -> list[str]:
    """Return a note for each kind that is not read."""
    return [
        f"skipped {count} of {kind}{_meaning(*kind.split(' ', 1))}" for kind, count in sorted(objects.skipped.items())
    ]


def _meaning(api_version: str, kind: str) -> str:
    if kind_problem(api_version, kind):
        return ""
    group = api_version.rpartition("/")[0]
    meaning = _MEANINGS.get((group, kind))
    if meaning:
        return f": not read; {meaning}"
    is_kubernetes = group in _KUBERNETES or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))
    return ": not needed" if is_kubernetes else ": not read"
