"""The part of pod specs that scheduling uses, each distinct part numbered once.

Contract: two pod specs share a scheduling spec if and only if they differ only in fields that no predicate reads
(`_UNUSED`). A field that is new in `PodRequirements` counts. Knows nothing of labels or nodes.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np

from trimtab.planner.classes.label_columns import number_values
from trimtab.planner.model.values import NodeAffinityTerm, PodRequirements, Selector
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
        "capacity_request",
        "requests_by_vpa",
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


SpecPart = Callable[[SchedulingSpec], Any]
"""Returns what a predicate reads of a scheduling spec: hashable, and false if the predicate refuses no such pod."""


class PodsLookedAt(NamedTuple):
    """What predicates read of other pods, for pods of a scheduling spec.

    selectors : of pods; keys : of labels of which every value matters, in these pods and in the pod itself;
    namespaces : names of those looked into besides the pod's own; namespace_selectors : of further ones;
    is_terminating : whether terminating pods are told apart from others; is_own_node : whether the node matters to
    which the pod itself is pinned.
    """

    selectors: tuple[Selector, ...] = ()
    keys: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    namespace_selectors: tuple[Selector, ...] = ()
    is_terminating: bool = False
    is_own_node: bool = False

    def and_of(self, other: "PodsLookedAt") -> "PodsLookedAt":
        """Return what two predicates read."""
        return PodsLookedAt(
            self.selectors + other.selectors,
            self.keys + other.keys,
            self.namespaces + other.namespaces,
            self.namespace_selectors + other.namespace_selectors,
            self.is_terminating or other.is_terminating,
            self.is_own_node or other.is_own_node,
        )


PodPart = Callable[[SchedulingSpec], PodsLookedAt | None]
"""Returns what predicates read of other pods for pods of a scheduling spec, None = nothing."""
TOLERATIONS: Final[SpecPart] = attrgetter("tolerations")
NODE_REQUIREMENT: Final[SpecPart] = attrgetter("node_requirement")


class DistinctParts(NamedTuple):
    """The distinct values of a part. of : int32[specs] of each scheduling spec its position in `values`."""

    of: Int32
    values: list[Any]


class SchedulingSpecs(NamedTuple):
    """Distinct scheduling specs.

    of : int32[specs] scheduling spec of each pod spec given; spread_timeout_s : int64[specs] or -1;
    rows : the scheduling specs, number : index of each in `rows`; parts : the distinct values of each part asked for;
    looks_at : by scheduling spec, what is read of other pods, None = nothing.
    """

    of: Int32
    spread_timeout_s: Int64
    rows: list[SchedulingSpec]
    number: dict[SchedulingSpec, int]
    parts: dict[SpecPart, DistinctParts]
    looks_at: list[PodsLookedAt | None]


def scheduling_spec(spec: PodRequirements, compare_tolerations: bool = False) -> SchedulingSpec:
    """Return the scheduling part of a pod spec; without `compare_tolerations`, tolerations that compare numbers go."""
    unsupported = _UNSUPPORTED if spec.unsupported else ()
    tolerations = spec.tolerations
    if not compare_tolerations and any(toleration.operator in _COMPARING for toleration in tolerations):
        tolerations = tuple([toleration for toleration in tolerations if toleration.operator not in _COMPARING])
    return SchedulingSpec._make(spec)._replace(unsupported=unsupported, tolerations=tolerations, **_UNUSED)


def _nothing(_: SchedulingSpec) -> None:
    return None


def scheduling_specs(
    specs: tuple[PodRequirements, ...],
    parts: Iterable[SpecPart],
    compare_tolerations: bool = False,
    part_of_pods: PodPart = _nothing,
) -> SchedulingSpecs:
    """Number the scheduling parts of pod specs, and the distinct values of parts. O(specs), microseconds each."""
    number: dict[SchedulingSpec, int] = {}
    of = [number.setdefault(scheduling_spec(spec, compare_tolerations), len(number)) for spec in specs]
    rows = list(number)
    timeouts = np.fromiter((spec.topology_spread_timeout_s for spec in specs), np.int64, len(specs))
    looks_at = list(map(part_of_pods, rows))
    return SchedulingSpecs(
        np.array(of, np.int32),
        timeouts,
        rows,
        number,
        {part: DistinctParts(*number_values(list(map(part, rows)))) for part in parts},
        looks_at,
    )
