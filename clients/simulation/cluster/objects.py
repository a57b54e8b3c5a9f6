"""Parts of Kubernetes objects as raw dicts: owners, labels, conditions, sizes, uids."""

import hashlib
from collections.abc import Mapping
from typing import Any

from trimtab.common.kubernetes.object_files import Object


def controller_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the controlling owner's reference, {} = none."""
    references = item["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), {})


def labels_of(item: Mapping[str, Any]) -> Mapping[str, str]:
    """Return an object's labels."""
    return item["metadata"].get("labels") or {}


def condition(item: Mapping[str, Any], kind: str) -> bool:
    """Return whether a status condition is "True"."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(entry.get("type") == kind and entry.get("status") == "True" for entry in conditions)


def condition_reason(item: Mapping[str, Any], kind: str) -> str:
    """Return the reason of a status condition, "" = it has none."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((str(entry.get("reason") or "") for entry in conditions if entry.get("type") == kind), "")


def desired_replicas(owner: Object) -> int | None:
    """Return the desired number of pods of a controller; None = not specified."""
    spec = owner.get("spec") or {}
    wanted = spec.get("parallelism" if owner["kind"] == "Job" else "replicas")
    return None if wanted is None else int(wanted)


def made_uid(seed: str, number: int) -> str:
    """Return a uid in Kubernetes' form, always the same for the same seed and number."""
    digits = hashlib.sha256(f"uid/{seed}/{number}".encode()).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))
