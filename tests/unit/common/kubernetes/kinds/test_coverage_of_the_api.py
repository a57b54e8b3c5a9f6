"""Every field of the API types that we read is declared in a struct, or listed as irrelevant with the reason.

Fields of Kubernetes come from the models of the `kubernetes` package, so that a new version of it names new fields.
Those of custom resources come from `crd_fields.yaml`, which says where its lists are from. What is irrelevant stands
in `irrelevant_fields.yaml`, by the API's type and the field; a type whose fields are all irrelevant is listed as
`Type.*`.
"""

import re
import types
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
import yaml
from kubernetes.client import models

from trimtab.common.kubernetes.kinds.pods import Present
from trimtab.common.kubernetes.registry import STRUCTS

HERE = Path(__file__).parent
MODELS = {
    "Node": "V1Node", "Pod": "V1Pod", "PodDisruptionBudget": "V1PodDisruptionBudget", "Namespace": "V1Namespace",
    "PersistentVolume": "V1PersistentVolume", "PersistentVolumeClaim": "V1PersistentVolumeClaim",
    "StorageClass": "V1StorageClass", "CSINode": "V1CSINode", "CSIDriver": "V1CSIDriver",
    "PriorityClass": "V1PriorityClass", "ReplicaSet": "V1ReplicaSet", "StatefulSet": "V1StatefulSet",
    "ReplicationController": "V1ReplicationController", "Deployment": "V1Deployment", "Job": "V1Job",
    "DaemonSet": "V1DaemonSet", "PodTemplate": "V1PodTemplate", "ResourceClaim": "ResourceV1ResourceClaim",
    "ResourceClaimTemplate": "V1ResourceClaimTemplate", "ResourceSlice": "V1ResourceSlice",
    "DeviceClass": "V1DeviceClass", "VolumeAttachment": "V1VolumeAttachment",
}  # fmt: skip
"""The kind, and the model of its version."""
CRD_FIELDS: dict[str, list[str]] = yaml.safe_load((HERE / "crd_fields.yaml").read_text())
IRRELEVANT: dict[str, dict[str, str]] = yaml.safe_load((HERE / "irrelevant_fields.yaml").read_text())
_CONTAINER = re.compile(r"(?:list\[|dict[\[(]str, )+(?P<of>\w+)[])]+")


@cache
def attributes(model: str) -> dict[str, str]:
    """Return the JSON names of a model's fields, with the models of their values, "" = a plain value."""
    cls = getattr(models, model)
    found = {}
    for name, of in cls.openapi_types.items():
        inner = match["of"] if (match := _CONTAINER.fullmatch(of)) else of
        found[cls.attribute_map[name]] = inner if hasattr(models, inner) else ""
    return found


@cache
def fields_of(struct: Any) -> dict[str, Any]:
    """Return the JSON names of a struct's fields, with the structs of their values, None = a plain value."""
    return {info.encode_name: struct_in(info.type) for info in msgspec.structs.fields(struct)}


def struct_in(hint: Any) -> Any:
    """Return the struct of a type, of the items of a list or of the values of a mapping."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType, list, dict, tuple):
        return next((found for one in get_args(hint) if (found := struct_in(one)) is not None), None)
    return hint if isinstance(hint, type) and issubclass(hint, msgspec.Struct) else None


def walk(model: str, struct: Any, seen: set[tuple[str, Any]]) -> Iterator[tuple[str, bool]]:
    """Yield each field of a model and of those below as "Type.field", with whether it is read."""
    if (model, struct) in seen:
        return
    seen.add((model, struct))
    declared = fields_of(struct) if struct is not None else {}
    for name, inner in attributes(model).items():
        yield f"{type_of(model)}.{name}", name in declared
        if name in declared and inner and declared[name] not in (None, Present):
            yield from walk(inner, declared[name], seen)


def type_of(model: str) -> str:
    """Return the name of a model's type without group and version."""
    return re.sub(r"^(Resource|Core|Apiregistration)?V\d+((alpha|beta)\d+)?", "", model)


def crd_fields(kind: str) -> Iterator[tuple[str, bool]]:
    """Yield each listed field of a custom resource, with whether it is read. What is below an unread one is too."""
    for path in CRD_FIELDS[kind]:
        struct, is_read = STRUCTS.get(kind), True
        for part in path.replace("[]", "").split("."):
            declared = fields_of(struct) if struct is not None else None
            if declared is None:
                break
            is_read = part in declared
            if not is_read:
                break
            struct = declared[part]
        yield f"{kind}.{path}", is_read


def every_field(kind: str) -> list[tuple[str, bool]]:
    """Return the fields of a kind, with whether each is read."""
    if kind in CRD_FIELDS:
        return list(crd_fields(kind))
    found = list(walk(MODELS[kind], STRUCTS.get(kind), set()))
    return [(name, is_read) for name, is_read in found if not name.endswith((".apiVersion", ".kind"))]


def reason_of(field: str) -> str:
    """Return why a field is irrelevant, "" = it is not listed."""
    owner, _, name = field.partition(".")
    of_type = IRRELEVANT.get(owner, {})
    parts = name.split(".")
    above = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return next((of_type[one] for one in (*above, "*") if one in of_type), "")


@pytest.mark.parametrize("kind", [*MODELS, *CRD_FIELDS])
def test_each_field_is_read_or_irrelevant_for_a_reason(kind: str) -> None:
    silent = sorted({field for field, is_read in every_field(kind) if not is_read and not reason_of(field)})
    assert silent == [], f"read these fields, or say in irrelevant_fields.yaml why nothing depends on them: {silent}"


def test_nothing_is_listed_as_irrelevant_that_does_not_exist() -> None:
    fields = {field for kind in (*MODELS, *CRD_FIELDS) for field, _ in every_field(kind)}
    known = {field.partition(".")[0] + ".*" for field in fields} | fields
    listed = {f"{owner}.{name}" for owner, names in IRRELEVANT.items() for name in names}
    assert [one for one in sorted(listed) if not any(f"{field}.".startswith(f"{one}.") for field in known)] == []
    assert all(reason for names in IRRELEVANT.values() for reason in names.values())


def counts() -> dict[str, Counter[str]]:
    """Return for each kind how many fields are read, and how many are irrelevant."""
    return {
        kind: Counter("read" if is_read else "irrelevant" for _, is_read in every_field(kind))
        for kind in (*MODELS, *CRD_FIELDS)
    }


def test_most_of_what_decides_is_read() -> None:
    assert all(count["read"] for kind, count in counts().items() if kind in STRUCTS)
