"""A collection of decoded Kubernetes objects, by kind, with the file that each came from.

Decides by API group and kind which objects are read; all others are counted and skipped.
"""

import difflib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trimtab.common.kubernetes.object_errors import FieldError, ObjectError
from trimtab.common.kubernetes.registry import BY_KIND, OUR_GROUP, STRUCTS, registered_kind
from trimtab.common.objects.annotated_numbers import pod_struct

_NEAR = 0.8
"""Least similarity of two names at which one is taken for the other, misspelled."""


def version_problem(api_version: str, kind: str) -> str:
    """Return what is wrong with the version of a kind that is read; "" if nothing is."""
    known = BY_KIND[kind].api_versions
    if api_version in known:
        return ""
    same_group = [version for version in known if _group(version) == _group(api_version)]
    return f"{api_version} {kind}: this version is unknown, known are {', '.join(same_group)}"


def kind_problem(api_version: str, kind: str) -> str:
    """Return the problem of a kind that is not read but looks like one that is; "" for any other kind."""
    group = _group(api_version)
    candidates = [known for known in STRUCTS if group in BY_KIND[known].groups]
    near = difflib.get_close_matches(kind, candidates, 1, _NEAR)
    if near:
        return f"{api_version} {kind}: this kind is unknown; did you mean {near[0]}?"
    ours = f"{api_version} {kind}: this kind is unknown; {group} has NodeGroup and MachineOffer"
    return ours if group == OUR_GROUP else ""


def is_read(api_version: str, kind: str) -> bool:
    """Return whether objects of this kind are read; kinds of the same name in other groups are not."""
    kind = registered_kind(api_version, kind)
    return kind in STRUCTS and _group(api_version) in BY_KIND[kind].groups


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


@dataclass
class Objects:
    """Decoded objects.

    by_kind : kind to objects in the order read; files : kind to (index of the first object, file), ascending;
    skipped : "apiVersion kind" to the number of objects not read; notes : remarks for the user;
    given : the kinds that the input had, including empty lists; listed : those that came as a list of their kind;
    numbers : sorted keys of the pods' annotations
    that are read as numbers, must be set before anything is added
    """

    by_kind: dict[str, list[Any]] = field(default_factory=dict)
    files: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    numbers: tuple[str, ...] = ()

    def struct(self, kind: str) -> type[Any]:
        """Return the struct for decoding objects of a kind."""
        return pod_struct(self.numbers) if kind == "Pod" else STRUCTS[kind]

    def of(self, kind: str) -> list[Any]:
        """Return the objects of a kind."""
        return self.by_kind.get(kind, [])

    def add(self, kind: str, objects: list[Any], file: str = "") -> None:
        """Append objects that came from one file."""
        if BY_KIND[kind].is_namespaced:
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


def key_of(obj: Any) -> tuple[str, str]:
    """Return namespace and name of an object."""
    return obj.metadata.namespace or "default", obj.metadata.name or ""


def by_key(objects: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """Return objects by namespace and name."""
    return {key_of(one): one for one in objects}


def name_of(kind: str, obj: Any) -> str:
    """Return "name" or "namespace/name" of an object, for messages."""
    meta = obj.metadata
    name = (meta.name if meta else None) or "(without name)"
    return name if not BY_KIND[kind].is_namespaced else f"{(meta.namespace if meta else None) or 'default'}/{name}"
