"""Changes to settings and objects: as lines for people and programs, and as edits of a planner's request.

An `Edit` says the same as its `AdvisedChange`s: whoever applies the lines to settings and objects gets the request
with the edit. Edits of different blockers can be combined.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

Keys = tuple[str | int, ...]


@dataclass(frozen=True)
class AdvisedChange:
    """One line to change.

    object : "" for the settings file, else as "Kind/namespace/name" ("Kind/name" without namespace); keys : the path of
    the field in it; before, after : its values as in JSON, None = absent; command : what makes the change with kubectl,
    "" = edit the file.
    """

    object: str
    keys: Keys
    before: Any
    after: Any
    command: str = ""

    @property
    def field(self) -> str:
        """The path of the field as text, such as "scaleDown.utilizationThreshold"."""
        text = ""
        for key in self.keys:
            text += f"[{key}]" if isinstance(key, int) else f".{key}"
        return text.removeprefix(".")

    @property
    def line(self) -> str:
        """The line to change: a settings key with its value, a command, or a field of an object."""
        if not self.object:
            return f"set {self.field}: {_text(self.after)} in the settings (now {_text(self.before)})"
        if self.command.startswith("kubectl edit"):
            return f"{self.command}  # {self.field}: {_text(self.after)}"
        return self.command or f"set {self.field}: {_text(self.after)} of {self.object} (now {_text(self.before)})"

    def document(self) -> dict[str, Any]:
        """Return the change for programs."""
        return {
            "object": self.object,
            "field": self.field,
            "keys": list(self.keys),
            "before": self.before,
            "after": self.after,
            "command": self.command,
        }


class SpecChange(Enum):
    """A change to the specs of pods."""

    EVICTABLE = "the annotation safe-to-evict is true"
    PREFERRED_ANTI_AFFINITY = "required anti-affinity is preferred, with weight 100"
    SOFT_SPREAD = "spread constraints are ScheduleAnyway"
    DISRUPTABLE = "the pod has no annotation against disruption"
    TAINTED_DOMAINS_LEFT_OUT = "spread constraints have nodeTaintsPolicy Honor"


class RequestChange(NamedTuple):
    """Another request of a resource. amount : of the whole pod, in the snapshot's unit."""

    resource: str
    amount: int


PodChange = SpecChange | RequestChange


@dataclass(frozen=True)
class Edit:
    """Changes to a request. settings : by path of the field in the JSON form; budgets : by row of the snapshot, how
    many pods may be unavailable, None = the budget is deleted; groups : minimum sizes by id; pods : by row of the
    snapshot; nodes : whose annotation against scale-down is removed; unhealthy : rows of budgets that let pods be
    evicted which are not ready.
    """

    settings: Mapping[Keys, Any] = field(default_factory=dict)
    budgets: Mapping[int, int | None] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    pods: Mapping[int, frozenset[PodChange]] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    unhealthy: frozenset[int] = frozenset()

    def with_other(self, other: "Edit") -> "Edit":
        """Return both edits in one."""
        pods = dict(self.pods)
        for row, changes in other.pods.items():
            pods[row] = pods.get(row, frozenset()) | changes
        return Edit(
            {**self.settings, **other.settings},
            {**self.budgets, **other.budgets},
            {**self.groups, **other.groups},
            pods,
            self.nodes | other.nodes,
            self.unhealthy | other.unhealthy,
        )

    @property
    def key(self) -> tuple[object, ...]:
        """Return what identifies the edit among others of the same request."""
        return (
            tuple(sorted(self.settings.items(), key=repr)),
            tuple(sorted(self.budgets.items())),
            tuple(sorted(self.groups.items())),
            tuple(sorted((row, tuple(sorted(map(str, changes)))) for row, changes in self.pods.items())),
            tuple(sorted(self.nodes)),
            tuple(sorted(self.unhealthy)),
        )


def patch_command(resource: str, name: str, patch: Mapping[str, Any], namespace: str = "") -> str:
    """Return the command that merges a patch into an object. namespace : "" = it has none."""
    place = f" -n {namespace}" if namespace else ""
    return f"kubectl patch {resource} {name}{place} --type merge -p '{json.dumps(patch, separators=(',', ':'))}'"


def _text(value: object) -> str:
    """Return a value of a field as YAML has it."""
    if value is None:
        return "none"
    return f"{value}".lower() if isinstance(value, bool) else f"{value}"
