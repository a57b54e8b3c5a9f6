"""Names and uids of synthetic objects: unique, deterministic, in the form that Kubernetes gives them."""

from typing import Any

from trimtab.clients.cluster_generator.workloads import Workload

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of Kubernetes' generated names: no vowels."""
_SPACE = len(_ALPHABET) ** 5
_STEP = 7_368_787
"""Coprime to 27: multiplication by it permutes the 27^5 suffixes."""


def suffix(number: int) -> str:
    """Return five letters, different for different numbers below 14 million."""
    rest, letters = (number + 1) * _STEP % _SPACE, ""
    for _ in range(5):
        rest, letter = divmod(rest, len(_ALPHABET))
        letters += _ALPHABET[letter]
    return letters


def replica_set_name(workload: Workload, index: int) -> str:
    """Return the name of a Deployment's ReplicaSet."""
    return f"{workload.name}-{suffix(31 * index)}{suffix(17 * index)[:4]}"


def pod_name(workload: Workload, index: int, ordinal: int) -> str:
    """Return the name of a pod, as its controller would give it."""
    if workload.kind == "StatefulSet":
        return f"{workload.name}-{ordinal}"
    if workload.kind == "Deployment":
        return f"{replica_set_name(workload, index)}-{suffix(ordinal)}"
    if workload.kind == "":
        return f"{workload.name}-by-hand-{ordinal}"
    return f"{workload.name}-{suffix(ordinal)}"


def owner_uid(index: int) -> str:
    """Return the uid of the controller of a workload's pods."""
    return f"00000000-0000-4000-8001-{index:012x}"


def deployment_uid(index: int) -> str:
    """Return the uid of the Deployment over a ReplicaSet."""
    return f"00000000-0000-4000-8002-{index:012x}"


def node_uid(index: int) -> str:
    """Return the uid of a node."""
    return f"00000000-0000-4000-8003-{index:012x}"


def pod_uid(index: int, ordinal: int) -> str:
    """Return the uid of a pod."""
    return f"{index:08x}-0000-4000-8000-{ordinal:012x}"


def pinned(node: str) -> dict[str, Any]:
    """Return the part of a DaemonSet pod's spec that binds it to its node, as the DaemonSet controller writes it."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
