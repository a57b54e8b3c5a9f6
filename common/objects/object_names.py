"""Names and namespaces of objects, checked as the API server does.

Decides which name is refused, not which object has it. Source: see `trimtab.common.kubernetes.names`.
"""

from collections.abc import Sequence

from trimtab.common.kubernetes.names import RULE, first_invalid, is_label
from trimtab.common.kubernetes.object_errors import FieldError

FREELY_NAMED = frozenset({"NodeGroup", "MachineOffer"})
"""Kinds whose names the cloud chooses."""


def first_refused(names: Sequence[str], namespaces: Sequence[str]) -> tuple[int, FieldError] | None:
    """Return the index of an object whose name or namespace is not allowed, with the error; None if there is none.

    namespaces : one for each name; empty for kinds without
    """
    index = first_invalid(names)
    if index is not None:
        return index, _error("metadata.name", names[index])
    refused = sorted(namespace for namespace in set(namespaces) if not is_label(namespace))
    return (namespaces.index(refused[0]), _error("metadata.namespace", refused[0])) if refused else None


def _error(path: str, name: str) -> FieldError:
    return FieldError(path, f"{name[:100]!r} is not a name that Kubernetes allows", f"use {RULE}")
