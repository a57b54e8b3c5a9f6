"""A collection of decoded Kubernetes objects, by kind, with the file that each came from.

Decides by API group and kind which objects are read; all others are counted and skipped.
"""

import difflib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from trimtab.clients.kubernetes import kinds
from trimtab.clients.kubernetes.object_errors import FieldError, ObjectError
from trimtab.clients.snapshots.objects.annotated_numbers import pod_struct

GROUPS: dict[str, tuple[str, ...]] = {
    "Node": ("",),
    "Pod": ("",),
    "Namespace": ("",),
    "PersistentVolume": ("",),
    "PersistentVolumeClaim": ("",),
    "PodTemplate": ("",),
    "ReplicationController": ("",),
    "ReplicaSet": ("apps", "extensions"),
    "StatefulSet": ("apps",),
    "Deployment": ("apps", "extensions"),
    "DaemonSet": ("apps", "extensions"),
    "Job": ("batch",),
    "PodDisruptionBudget": ("policy",),
    "StorageClass": ("storage.k8s.io",),
    "CSINode": ("storage.k8s.io",),
    "PriorityClass": ("scheduling.k8s.io",),
    "CapacityBuffer": ("autoscaling.x-k8s.io",),
    "NodeGroup": ("trimtab.dev",),
}
"""API groups of each kind that is read; kinds of the same name in other groups are skipped."""

CLUSTER_SCOPED = frozenset(
    {"Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "PriorityClass", "NodeGroup"}
)
STRUCTS: dict[str, type[Any]] = {kind: getattr(kinds, kind) for kind in GROUPS}


_VERSIONS = {
    "": ("v1",),
    "apps": ("v1", "v1beta1", "v1beta2"),
    "extensions": ("v1beta1",),
    "batch": ("v1",),
    "policy": ("v1", "v1beta1"),
    "storage.k8s.io": ("v1", "v1beta1"),
    "scheduling.k8s.io": ("v1", "v1beta1", "v1alpha1"),
    "autoscaling.x-k8s.io": ("v1", "v1beta1", "v1alpha1"),
    "trimtab.dev": ("v1",),
}
_API_VERSIONS = frozenset(
    f"{group}/{version}".removeprefix("/") for group, versions in _VERSIONS.items() for version in versions
)
OUR_GROUP = "trimtab.dev"
_NEAR = 0.8
"""Least similarity of two names at which one is taken for the other, misspelled."""


def version_problem(api_version: str, kind: str) -> str:
    """Return what is wrong with the version of a kind that is read; "" if nothing is."""
    if api_version in _API_VERSIONS:
        return ""
    group = api_version.rpartition("/")[0]
    known = ", ".join(f"{group}/{version}".removeprefix("/") for version in _VERSIONS[group])
    return f"{api_version} {kind}: this version is unknown, known are {known}"


def kind_problem(api_version: str, kind: str) -> str:
    """Return the problem of a kind that is not read but looks like one that is; "" for any other kind."""
    group = api_version.rpartition("/")[0]
    candidates = [known for known, groups in GROUPS.items() if group in groups]
    near = difflib.get_close_matches(kind, candidates, 1, _NEAR)
    if near:
        return f"{api_version} {kind}: this kind is unknown; did you mean {near[0]}?"
    return f"{api_version} {kind}: this kind is unknown; {group} has NodeGroup" if group == OUR_GROUP else ""


def is_read(api_version: str, kind: str) -> bool:
    """Return whether objects of this kind are read."""
    group = api_version.rpartition("/")[0]
    return group in GROUPS.get(kind, ())


@dataclass
class Objects:
    """Decoded objects.

    by_kind : kind to objects in the order read; files : kind to (index of the first object, file), ascending;
    skipped : "apiVersion kind" to the number of objects not read; notes : remarks for the user;
    given : the kinds that the input had, including empty lists; numbers : sorted keys of the pods' annotations
    that are read as numbers, must be set before anything is added
    """

    by_kind: dict[str, list[Any]] = field(default_factory=dict)
    files: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    numbers: tuple[str, ...] = ()

    def struct(self, kind: str) -> type[Any]:
        """Return the struct for decoding objects of a kind."""
        return pod_struct(self.numbers) if kind == "Pod" else STRUCTS[kind]

    def of(self, kind: str) -> list[Any]:
        """Return the objects of a kind."""
        return self.by_kind.get(kind, [])

    def add(self, kind: str, objects: list[Any], file: str = "") -> None:
        """Append objects that came from one file."""
        if kind not in CLUSTER_SCOPED:
            for one in objects:
                if one.metadata is not None and not one.metadata.namespace:
                    one.metadata.namespace = "default"
        have = self.by_kind.setdefault(kind, [])
        self.files.setdefault(kind, []).append((len(have), file))
        have.extend(objects)
        self.given.add(kind)

    def error(self, kind: str, obj: Any, error: FieldError) -> ObjectError:
        """Return a field's error with the object's kind, name and file."""
        return ObjectError(self.file_of(kind, obj), kind, name_of(kind, obj), error)

    def file_of(self, kind: str, obj: Any) -> str:
        """Return the file that an object was read from; "" if it was given directly. O(objects): for errors."""
        index = next((i for i, one in enumerate(self.of(kind)) if one is obj), -1)
        file = ""
        for first, name in self.files.get(kind, []):
            if first <= index:
                file = name
        return file


def name_of(kind: str, obj: Any) -> str:
    """Return "name" or "namespace/name" of an object, for messages."""
    meta = obj.metadata
    name = (meta.name if meta else None) or "(without name)"
    return name if kind in CLUSTER_SCOPED else f"{(meta.namespace if meta else None) or 'default'}/{name}"
