"""The part of pod specs that scheduling uses, each distinct part numbered once.

Contract: two pod specs share a scheduling spec if and only if all predicates treat them alike; priority and fields used
only for eviction (grace period, safe-to-evict, …) are dropped. Knows nothing of labels or nodes.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.classes.grouping import number_values
from trimtab.planner.model.values import (
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    SpreadConstraint,
    Toleration,
)
from trimtab.planner.snapshot.columns import Int32, Int64

NodeRequirement = tuple[tuple[tuple[str, str], ...], tuple[NodeSelectorTerm, ...] | None]
"""`nodeSelector` and required node affinity."""


class SchedulingSpec(NamedTuple):
    """The fields that predicates use; see `trimtab.planner.model.values.PodSpec`."""

    requests: tuple[tuple[str, int], ...]
    node_requirement: NodeRequirement
    tolerations: tuple[Toleration, ...]
    host_ports: tuple[HostPort, ...]
    pod_affinity: tuple[PodAffinityTerm, ...]
    pod_anti_affinity: tuple[PodAffinityTerm, ...]
    topology_spread: tuple[SpreadConstraint, ...]
    unsupported: bool
    exclusive_disks: tuple[str, ...]
    read_only_disks: tuple[str, ...]

    @property
    def looks_at_pods(self) -> bool:
        """Whether other pods' labels affect it."""
        return bool(self.pod_affinity or self.pod_anti_affinity or self.topology_spread)


class SchedulingSpecs(NamedTuple):
    """Distinct scheduling specs.

    of : int32[specs] scheduling spec of each pod spec given; spread_timeout_s : int64[specs] or -1;
    rows : the scheduling specs, number : index of each in `rows`; node_requirement, tolerations : int32[rows] index
    into the distinct values beside them.
    """

    of: Int32
    spread_timeout_s: Int64
    rows: list[SchedulingSpec]
    number: dict[SchedulingSpec, int]
    node_requirement: Int32
    node_requirements: list[NodeRequirement]
    tolerations: Int32
    toleration_sets: list[tuple[Toleration, ...]]


def scheduling_spec(spec: PodSpec) -> SchedulingSpec:
    """Return the scheduling part of a pod spec."""
    return SchedulingSpec(
        spec.requests,
        (spec.node_selector, spec.node_affinity),
        spec.tolerations,
        spec.host_ports,
        spec.pod_affinity,
        spec.pod_anti_affinity,
        spec.topology_spread,
        bool(spec.unsupported),
        spec.exclusive_disks,
        spec.read_only_disks,
    )


def scheduling_specs(specs: tuple[PodSpec, ...]) -> SchedulingSpecs:
    """Number the scheduling parts of pod specs. O(specs), a few microseconds each."""
    number: dict[SchedulingSpec, int] = {}
    of = [number.setdefault(scheduling_spec(spec), len(number)) for spec in specs]
    rows = list(number)
    requirement, requirements = number_values([row.node_requirement for row in rows])
    tolerations, toleration_sets = number_values([row.tolerations for row in rows])
    timeouts = np.fromiter((spec.topology_spread_timeout_s for spec in specs), np.int64, len(specs))
    return SchedulingSpecs(
        np.array(of, np.int32),
        timeouts,
        rows,
        number,
        requirement,
        requirements,
        tolerations,
        toleration_sets,
    )
