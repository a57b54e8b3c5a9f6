"""The part of pod specs that scheduling uses, each distinct part numbered once.

Contract: two pod specs share a scheduling spec if and only if they differ only in fields that no predicate reads
(`_UNUSED`). A field that is new in `PodRequirements` counts. Knows nothing of labels or nodes.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.planner.classes.grouping import number_values
from trimtab.planner.model.values import NodeAffinityTerm, PodRequirements
from trimtab.planner.snapshot.columns import Int32, Int64
from trimtab.v1.snapshot_pb2 import TolerationOperator

NodeRequirement = tuple[tuple[tuple[str, str], ...], tuple[NodeAffinityTerm, ...] | None]
"""`nodeSelector` and required node affinity."""
_UNUSED: Final = {
    field: PodRequirements._field_defaults[field]
    for field in (
        "priority",
        "scheduler_name",
        "restart_policy",
        "termination_grace_period_s",
        "safe_to_evict",
        "local_storage",
        "topology_spread_timeout_s",
        "enable_ds_eviction",
        "scale_up_delay_s",
        "preferred_pod_anti_affinity",
        "ignored_by_slack",
    )
}
"""Fields for eviction, scoring and decisions. A timeout of spread constraints counts by whether it has expired."""
_UNSUPPORTED: Final = ("",)
_COMPARING: Final = (TolerationOperator.LT, TolerationOperator.GT)


class SchedulingSpec(PodRequirements):
    """A pod spec of which the unused fields have their defaults."""

    __slots__ = ()

    @property
    def node_requirement(self) -> NodeRequirement:
        """`nodeSelector` and required node affinity."""
        return self.node_selector, self.node_affinity

    @property
    def looks_at_pods(self) -> bool:
        """Whether other pods' labels affect it."""
        return bool(self.pod_affinity or self.pod_anti_affinity or self.topology_spread)


SpecPart = Callable[[SchedulingSpec], Any]
"""Returns what a predicate reads of a scheduling spec: hashable, and false if the predicate refuses no such pod."""
TOLERATIONS: Final[SpecPart] = attrgetter("tolerations")
NODE_REQUIREMENT: Final[SpecPart] = attrgetter("node_requirement")


class DistinctParts(NamedTuple):
    """The distinct values of a part. of : int32[specs] of each scheduling spec its position in `values`."""

    of: Int32
    values: list[Any]


class SchedulingSpecs(NamedTuple):
    """Distinct scheduling specs.

    of : int32[specs] scheduling spec of each pod spec given; spread_timeout_s : int64[specs] or -1;
    rows : the scheduling specs, number : index of each in `rows`; parts : the distinct values of each part asked for.
    """

    of: Int32
    spread_timeout_s: Int64
    rows: list[SchedulingSpec]
    number: dict[SchedulingSpec, int]
    parts: dict[SpecPart, DistinctParts]


def scheduling_spec(spec: PodRequirements, compare_tolerations: bool = False) -> SchedulingSpec:
    """Return the scheduling part of a pod spec; without `compare_tolerations`, tolerations that compare numbers go."""
    unsupported = _UNSUPPORTED if spec.unsupported else ()
    tolerations = spec.tolerations
    if not compare_tolerations and any(one.operator in _COMPARING for one in tolerations):
        tolerations = tuple([one for one in tolerations if one.operator not in _COMPARING])
    return SchedulingSpec._make(spec)._replace(unsupported=unsupported, tolerations=tolerations, **_UNUSED)


def scheduling_specs(
    specs: tuple[PodRequirements, ...], parts: Iterable[SpecPart], compare_tolerations: bool = False
) -> SchedulingSpecs:
    """Number the scheduling parts of pod specs, and the distinct values of parts. O(specs), microseconds each."""
    number: dict[SchedulingSpec, int] = {}
    of = [number.setdefault(scheduling_spec(spec, compare_tolerations), len(number)) for spec in specs]
    rows = list(number)
    timeouts = np.fromiter((spec.topology_spread_timeout_s for spec in specs), np.int64, len(specs))
    return SchedulingSpecs(np.array(of, np.int32), timeouts, rows, number, _distinct(rows, parts))


def with_more_specs(specs: SchedulingSpecs, more: list[SchedulingSpec]) -> tuple[SchedulingSpecs, Int32]:
    """Return the specs with further ones appended, and the number of each of these : int32[more]."""
    number = dict(specs.number)
    of = np.array([number.setdefault(spec, len(number)) for spec in more], np.int32)
    if len(number) == len(specs.rows):
        return specs, of
    rows = list(number)
    return specs._replace(rows=rows, number=number, parts=_distinct(rows, specs.parts)), of


def _distinct(rows: list[SchedulingSpec], parts: Iterable[SpecPart]) -> dict[SpecPart, DistinctParts]:
    return {part: DistinctParts(*number_values(list(map(part, rows)))) for part in parts}
