"""Print what clients in Go know of the contract beyond its messages, as JSON: the kinds of objects that planners read,
and of each the fields. `.ci/generate` writes the file; a test compares it.

kinds : "group/Kind" to [the kind's name among all groups, its struct, whether it is in namespaces]
fields : struct to fields; of each the struct of its value or of a list's elements, "*" and the struct of a map's
values, or "" = it is read whole
"""

import json
import sys
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from trimtab.common.kubernetes.registry import BY_KIND, STRUCTS


def value_of(hint: Any, fields: dict[str, dict[str, str]]) -> str:
    """Return what a field's value is, after adding its struct to `fields`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Annotated, list):
        return value_of(inner[0], fields)
    if origin in (Union, UnionType):
        return next(filter(None, (value_of(one, fields) for one in inner)), "")
    if origin is dict:
        name = value_of(inner[1], fields)
        return f"*{name}" if name else ""
    if not isinstance(hint, type) or not issubclass(hint, msgspec.Struct):
        return ""
    name = hint.__name__
    if name not in fields:
        fields[name] = {}
        for info in msgspec.structs.fields(hint):
            fields[name][info.encode_name] = value_of(info.type, fields)
    return name


def main() -> None:
    """Write the tables."""
    fields: dict[str, dict[str, str]] = {}
    kinds = {
        f"{group}/{BY_KIND[kind].object_kind}": [kind, value_of(struct, fields), BY_KIND[kind].is_namespaced]
        for kind, struct in STRUCTS.items()
        for group in BY_KIND[kind].groups
    }
    tables = {"kinds": kinds, "fields": fields}
    sys.stdout.write(json.dumps(tables, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
