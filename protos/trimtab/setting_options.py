"""What the contract says of settings beyond their types: the option `setting` of the fields of `PlanSettings`, and of
the parts of snapshots that planners must know (options.proto). Written by hand, beside the generated modules: planner,
clients, tests and documentation read it here.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from trimtab.v1 import options_pb2, plan_pb2, snapshot_pb2


def fields_below(kind: Descriptor) -> Iterator[FieldDescriptor]:
    """Yield the fields of a message of the contract and of all messages below it, each message once."""
    seen, rest = set[str](), [kind]
    while rest:
        one = rest.pop(0)
        if one.full_name in seen or one.file.package != "trimtab.v1":
            continue
        seen.add(one.full_name)
        is_entry = one.GetOptions().map_entry
        for field in one.fields:
            if not is_entry:
                yield field
            if field.message_type is not None:
                rest.append(field.message_type)


@cache
def option_of(field: FieldDescriptor) -> options_pb2.Setting:
    """Return what the contract says of a field; nothing if it has no such option."""
    return field.GetOptions().Extensions[options_pb2.setting]


def _features(kind: Descriptor) -> Mapping[str, str]:
    found = {field.full_name: option_of(field).feature for field in fields_below(kind)}
    return MappingProxyType({name: feature for name, feature in found.items() if feature})


OF_SETTINGS: Final = _features(plan_pb2.PlanSettings.DESCRIPTOR)
"""The feature that a planner needs for a setting, by full name of the field."""
OF_SNAPSHOTS: Final = _features(snapshot_pb2.ClusterSnapshot.DESCRIPTOR)
"""The feature that a planner needs for a part of a snapshot or delta, by full name of the field. A delta that lacks
the part needs no feature: the planner that has its base had it."""
FEATURES: Final = tuple(sorted({*OF_SETTINGS.values(), *OF_SNAPSHOTS.values()}))
"""What a request may require, sorted: what this contract has. A later setting that restricts needs a new feature: a
build that has only the earlier settings of a feature would accept it. No name is removed or reused."""


def setting_paths() -> Iterator[tuple[str, FieldDescriptor]]:
    """Yield each field of the settings with its path in a settings file, in the contract's order: "scaleDown.enabled",
    "nodeGroups.NAME.unneededTime", "planner.limits[].resource". Label selectors are not divided."""
    yield from _paths(plan_pb2.PlanSettings.DESCRIPTOR, "")


def _paths(kind: Descriptor, before: str) -> Iterator[tuple[str, FieldDescriptor]]:
    for field in kind.fields:
        path, inner = f"{before}{field.json_name}", field.message_type
        yield path, field
        if inner is not None and inner.GetOptions().map_entry:
            path, inner = f"{path}.NAME", inner.fields_by_name["value"].message_type
        elif field.is_repeated:
            path += "[]"
        if inner is not None and inner.file.package == "trimtab.v1" and inner.name != "Selector":
            yield from _paths(inner, f"{path}.")


@cache
def settings_by_name() -> Mapping[str, str]:
    """Return the path of the setting that a name means, by `plain_name`: upstream's names for settings, then the names
    of settings themselves. The first path of several counts."""
    found: dict[str, str] = {}
    paths = [(path, field) for path, field in setting_paths() if "[]" not in path]
    for path, field in paths:
        for name in option_of(field).upstream:
            found.setdefault(plain_name(name), path)
    for path, field in paths:
        found.setdefault(plain_name(field.name), path)
        found.setdefault(plain_name(path), path)
    return MappingProxyType(found)


def plain_name(name: str) -> str:
    """Return what is equal of a name in all ways to write it: as a flag, with underscores, in camel case."""
    return "".join(one for one in name.lower() if one.isalnum())
