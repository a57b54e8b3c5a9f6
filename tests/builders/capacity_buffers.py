"""CapacityBuffers and PodTemplates, and a restatement of what the API server accepts as a CapacityBuffer.

Source: kubernetes/autoscaler, cluster-autoscaler/apis, CustomResourceDefinition capacitybuffers.autoscaling.x-k8s.io,
v1beta1 and v1alpha1: the schema of `spec` and its two validation rules.
"""

import re
from typing import Any

VERSIONS = ("autoscaling.x-k8s.io/v1beta1", "autoscaling.x-k8s.io/v1alpha1")
_FIELDS = {"limits", "percentage", "podTemplateRef", "provisioningStrategy", "replicas", "scalableRef"}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUANTITY = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
        "nodeSelector": {"disk": "ssd"},
    },
}


def buffer(name: str = "spare", namespace: str = "default", version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    """Build a CapacityBuffer."""
    return {
        "apiVersion": f"autoscaling.x-k8s.io/{version}",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def template(name: str = "chunk", namespace: str = "default", of: dict[str, Any] = TEMPLATE) -> dict[str, Any]:
    """Build a PodTemplate."""
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "template": of,
    }


def refused(buffer: dict[str, Any]) -> list[str]:
    """Return why the API server refuses a CapacityBuffer; [] = it accepts it."""
    spec, name = buffer.get("spec"), buffer.get("metadata", {}).get("name", "")
    out = []
    if buffer.get("apiVersion") not in VERSIONS or buffer.get("kind") != "CapacityBuffer":
        out.append("apiVersion or kind")
    if not _NAME.fullmatch(name) or len(name) > 253:
        out.append(f"metadata.name {name!r}")
    if not isinstance(spec, dict):
        return [*out, "spec is required"]
    out += [f"spec.{field} is pruned" for field in spec.keys() - _FIELDS]
    for field in ("replicas", "percentage"):
        if field in spec and not (type(spec[field]) is int and 0 <= spec[field] < 2**31):
            out.append(f"spec.{field}")
    for field, needed in (("podTemplateRef", {"name"}), ("scalableRef", {"kind", "name"})):
        reference = spec.get(field)
        if reference is not None and not all(reference.get(key) for key in needed):
            out.append(f"spec.{field}")
    for resource, amount in spec.get("limits", {}).items():
        if not (type(amount) is int or _QUANTITY.fullmatch(amount)):
            out.append(f"spec.limits.{resource}")
    if "podTemplateRef" in spec and "replicas" not in spec and "limits" not in spec:
        out.append("with podTemplateRef, replicas or limits must be set")
    if "podTemplateRef" in spec and "scalableRef" in spec:
        out.append("podTemplateRef and scalableRef exclude each other")
    return out
