"""What certificates of devices read of Kubernetes objects as the API server writes them in JSON: amounts, nodes,
attributes.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Json = Mapping[str, Any]
SUFFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "m": Fraction(1, 1000), "n": Fraction(1, 10**9)} | {
    f"{letter}i": 2 ** (10 * power) for power, letter in enumerate("KMGT", start=1)
}


def amount(text: str | int) -> Fraction:
    """Return a quantity with one of the usual suffixes."""
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text))
    assert match is not None, text
    return Fraction(match.group(1)) * SUFFIXES[match.group(2)]


def amounts(found: Json | None) -> dict[str, Fraction]:
    """Return a map of quantities, or of objects with a `value`."""
    return {
        name: amount(one["value"] if isinstance(one, Mapping) else one) for name, one in (found or {}).items()
    }  # fmt: skip


def reaches(selection: Json, node: Json) -> bool:
    """Return whether a slice or a device, by its fields for nodes, is for a node."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    if selection.get("nodeName"):
        return bool(selection["nodeName"] == name)
    if selection.get("allNodes"):
        return True
    terms = (selection.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    return any(
        all(holds(one, labels.get(one["key"])) for one in term.get("matchExpressions") or ())
        and all((one["values"] == [name]) == (one["operator"] == "In") for one in term.get("matchFields") or ())
        for term in terms
    )


def holds(requirement: Json, value: str | None) -> bool:
    """Return whether a requirement on a label holds."""
    operator, values = requirement["operator"], requirement.get("values") or ()
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    return (value in values) == (operator == "In")


def attribute(device: Json, driver: str, name: str) -> Any:
    """Return type and value of an attribute by its full name, or None."""
    domain, _, rest = name.partition("/")
    found = (device.get("attributes") or {}).get(name)
    if found is None and domain == driver:
        found = (device.get("attributes") or {}).get(rest)
    if found is None:
        return None
    ((kind, value),) = found.items()
    return kind, value


def is_tolerated(device: Json, request: Json) -> bool:
    """Return whether a request tolerates the taints of a device that keep devices from claims."""

    def tolerates(one: Json, taint: Json) -> bool:
        if one.get("effect", "") not in ("", taint["effect"]) or one.get("key", "") not in ("", taint["key"]):
            return False
        return one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", "")

    return all(
        taint["effect"] not in ("NoSchedule", "NoExecute")
        or any(tolerates(one, taint) for one in request.get("tolerations") or ())
        for taint in device.get("taints") or ()
    )
