"""Parts of a scenario that are given as in Kubernetes: pod specs and taints.

Decides nothing of its own: they are read as parts of an object of a cluster. Raises ValueError naming the field.
"""

from typing import Any

from trimtab.clients.kubernetes.object_errors import ObjectError
from trimtab.clients.snapshots.objects import build_snapshot, decode_objects

Json = dict[str, Any]
_CONTAINER = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Mi"}}}


def check_pod_spec(spec: Json) -> Json:
    """Return a pod's spec, which need not have containers."""
    if "nodeName" in spec:
        raise ValueError("nodeName: the scheduler decides it; leave it out, or use nodeSelector")
    _check("Pod", {"containers": [_CONTAINER], **spec}, {})
    return spec


def check_taints(taints: list[Json]) -> list[Json]:
    """Return a node's taints."""
    _check("Node", {"taints": taints}, {"allocatable": {"cpu": "1", "memory": "1Mi", "pods": "1"}})
    return taints


def _check(kind: str, spec: Json, status: Json) -> None:
    metadata = {"name": "x"} | ({"namespace": "default"} if kind == "Pod" else {})
    item = {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    try:
        build_snapshot(decode_objects([item]))
    except ObjectError as error:
        raise ValueError(f"{error.path.removeprefix('spec.')}: {error.problem}") from None
