"""Specs of pods: those in rows of other tables than the pods (templates of owners, requests, pods of DaemonSets), and
the dictionary of those that have become equal."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from trimtab.planner.model.values import Owner, PodGroup, PodRequirements
from trimtab.planner.snapshot.columns import Int32, Snapshot


def _of_template(row: Owner | PodGroup) -> list[PodRequirements]:
    return [] if row.pod_template is None else [row.pod_template.spec]


SPECS_OF: Final[dict[str, Callable[[Any], list[PodRequirements]]]] = {
    "groups": lambda row: [pod.spec for pod in row.daemonset_pods],
    "owners": _of_template,
    "pod_groups": _of_template,
    "slack_requests": lambda row: [row.spec],
    "capacity_requests": lambda row: [one.spec for one in row.pod_sets],
}
"""The specs in rows of other tables than the pods."""


def other_specs(sent: Snapshot) -> list[PodRequirements]:
    """Return all of these specs."""
    return [spec for table, specs_of in SPECS_OF.items() for row in getattr(sent, table) for spec in specs_of(row)]


def has_claims(spec: PodRequirements) -> bool:
    """Return whether pods of a spec may want devices."""
    return bool(spec.claims or spec.extended_device_requests)


def distinct_specs(specs: Sequence[PodRequirements], of: Int32) -> tuple[tuple[PodRequirements, ...], Int32]:
    """Return specs each once, as in any snapshot, and the spec of each pod. of : int32[P] into `specs`."""
    number: dict[PodRequirements, int] = {}
    moved = np.array([number.setdefault(one, len(number)) for one in specs], np.int32)
    return (tuple(specs), of) if len(number) == len(specs) else (tuple(number), moved[of])


def mapped(value: Any, replaced: Callable[[PodRequirements], PodRequirements]) -> Any:
    """Return a row, or what it consists of, with its specs replaced."""
    if isinstance(value, PodRequirements):
        return replaced(value)
    if not isinstance(value, tuple):
        return value
    parts = [mapped(one, replaced) for one in value]
    return type(value)._make(parts) if hasattr(value, "_make") else tuple(parts)
