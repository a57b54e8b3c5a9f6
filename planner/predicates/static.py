"""Static predicates: what a pod class asks, and what a node class offers, decide alone.

Contract: a static predicate is declared in its module and listed in `trimtab.planner.predicates.order`; that decides
its bit in `blocked[S, K]`, its reason, what makes pods and nodes differ in class, and how virtual pods are checked.
Symbols: S pod classes, K node classes, V distinct values of what the predicate reads of pods.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.label_columns import LookedAt
from trimtab.planner.classes.node_classes import NodeClasses, NodeSignature, TraitPart
from trimtab.planner.classes.pod_classes import PodClasses
from trimtab.planner.classes.scheduling_specs import SchedulingSpecs, SpecPart
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import MountedVolume
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

VolumePart = Callable[[MountedVolume], Hashable]
"""Returns what a predicate reads of a volume, None if the predicate refuses it nowhere."""


class VolumeSets(NamedTuple):
    """of : int32[P] set of profiles of each pod's volumes, 0 = none; sets : the sets, as sorted indices of profiles;
    profiles : of each distinct volume the values that predicates read, in the order of the predicates; the first has
    none."""

    of: Int32
    sets: list[tuple[int, ...]]
    profiles: list[tuple[Hashable, ...]]

    def values(self, part: int) -> list[Any]:
        """Return the values that the predicate `part` reads, one for each profile that has one."""
        return [profile[part] for profile in self.profiles if profile[part] is not None]

    def any_of(self, part: int, rows: Bool) -> Bool:
        """Return what a predicate excludes for each set, from what it excludes for each of `values(part)`. rows :
        bool[values, K]. bool[sets, K].
        """
        having = [at for at, profile in enumerate(self.profiles) if profile[part] is not None]
        by_profile = np.zeros((len(self.profiles), rows.shape[1]), np.bool_)
        by_profile[having] = rows
        out = np.zeros((len(self.sets), rows.shape[1]), np.bool_)
        for at, volume_set in enumerate(self.sets):
            if volume_set:
                out[at] = by_profile[list(volume_set)].any(axis=0)
        return out


def volume_sets(
    volumes: tuple[MountedVolume, ...], parts: Sequence[VolumePart], pod_count: int, pod: Int32, volume: Int32
) -> VolumeSets:
    """Reduce every pod's volumes to a set of profiles. pod, volume : int32[M] of each mount, pods
    ascending."""
    numbers: dict[tuple[Hashable, ...], int] = {(None,) * len(parts): 0}
    profiles = (tuple([part(volume) for part in parts]) for volume in volumes)
    of_volume = np.fromiter((numbers.setdefault(profile, len(numbers)) for profile in profiles), np.int64, len(volumes))
    of = np.zeros(pod_count, np.int32)
    sets: dict[tuple[int, ...], int] = {(): 0}
    profile_of = of_volume[volume]
    keys = np.unique(pod[profile_of > 0].astype(np.int64) * len(numbers) + profile_of[profile_of > 0])
    pods, of_pods = keys // len(numbers), keys % len(numbers)
    starts = np.flatnonzero(np.diff(pods, prepend=-1))
    ends = np.append(starts[1:], len(pods))[: len(starts)]
    listed = of_pods.tolist()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        of[pods[start]] = sets.setdefault(tuple(listed[start:end]), len(sets))
    return VolumeSets(of, list(sets), list(numbers))


Bits = NDArray[np.uint16]
"""Bits of static predicates. uint16[…]; a wider type needs to be changed here only."""
BITS: Final = np.uint16


class StaticNodes(NamedTuple):
    """The nodes' side."""

    classes: NodeClasses
    limits: RequestLimits = UNLIMITED


class StaticPredicate(NamedTuple):
    """A predicate that neither pods placed before nor free amounts affect.

    reason : `PredicateReason.Code`, whose texts are in reason.proto; excluded : returns bool[V, K], which
    node classes refuse pods with each of V values.

    Exactly one of these says what is read of a pod, as a hashable value. of_spec : of its scheduling spec; of_volume :
    of each of its volumes, None = nothing; the pod is refused where one of its volumes is; of_class : bool[S], the
    classes that it concerns; its only value is True.

    note_labels : notes the labels and names of nodes that matter for values; without it, only taints, `unschedulable`
    and traits of a node class matter; of_traits : what is read of `NodeTraits`: nodes that differ in it are in
    different classes.
    """

    reason: int
    excluded: Callable[[Sequence[Any], StaticNodes], Bool]
    of_spec: SpecPart | None = None
    of_volume: VolumePart | None = None
    of_class: Callable[[PodClasses], Bool] | None = None
    note_labels: Callable[[Sequence[Any], NodeSignature], None] | None = None
    of_traits: TraitPart | None = None

    @property
    def reasons(self) -> tuple[int, ...]:
        """The one reason."""
        return (self.reason,)


class StaticAnswers(NamedTuple):
    """blocked : uint16[S, K], bit i is that of predicate i; by_reason : bool[V, K] what a predicate of specs excludes,
    by the values in `SchedulingSpecs.parts`."""

    blocked: Bits
    by_reason: dict[int, Bool]


def spec_parts(predicates: Sequence[StaticPredicate]) -> list[SpecPart]:
    """Return what the predicates read of scheduling specs, each part once."""
    return list(dict.fromkeys(predicate.of_spec for predicate in predicates if predicate.of_spec is not None))


def volume_parts(predicates: Sequence[StaticPredicate]) -> list[VolumePart]:
    """Return what the predicates read of volumes, in order."""
    return [predicate.of_volume for predicate in predicates if predicate.of_volume is not None]


def node_signature(
    predicates: Sequence[StaticPredicate], specs: SchedulingSpecs, volume_sets: VolumeSets
) -> NodeSignature:
    """Return what the predicates tell apart in nodes."""
    traits = dict.fromkeys(predicate.of_traits for predicate in predicates if predicate.of_traits is not None)
    signature = NodeSignature(LookedAt(), set(), tuple(traits))
    for predicate in predicates:
        if predicate.note_labels is not None:
            predicate.note_labels(_values(predicate, predicates, specs, volume_sets), signature)
    return signature


def _values(
    predicate: StaticPredicate, predicates: Sequence[StaticPredicate], specs: SchedulingSpecs, volume_sets: VolumeSets
) -> Sequence[Any]:
    if predicate.of_spec is not None:
        return specs.parts[predicate.of_spec].values
    if predicate.of_volume is not None:
        return volume_sets.values(volume_parts(predicates).index(predicate.of_volume))
    return (True,)


def static_answers(
    predicates: Sequence[StaticPredicate],
    specs: SchedulingSpecs,
    classes: PodClasses,
    volume_sets: VolumeSets,
    nodes: NodeClasses,
    limits: RequestLimits,
) -> StaticAnswers:
    """Evaluate all static predicates. O(V · K) for each, then O(S · K) for each kind of value that refuses a node."""
    node_class_count = len(nodes.taint_set)
    limits.reserve(4 * classes.size * node_class_count, "pod classes times node classes")
    by_reason: dict[int, Bool] = {}
    # Predicates that read the same part are joined before they are spread over the classes.
    joined: dict[Hashable, tuple[Int32 | Int64, Bits]] = {}
    for bit, predicate in enumerate(predicates):
        values = _values(predicate, predicates, specs, volume_sets)
        limits.reserve(2 * len(values) * node_class_count, "values of pods times node classes")
        rows = predicate.excluded(values, StaticNodes(nodes, limits))
        of_class: Int32 | Int64
        key: Hashable = predicate.reason
        if predicate.of_spec is not None:
            by_reason[predicate.reason], key = rows, predicate.of_spec
            of_class = specs.parts[predicate.of_spec].of[classes.spec]
        elif predicate.of_volume is not None:
            key, of_class = "volumes", classes.volume_set
            rows = volume_sets.any_of(volume_parts(predicates).index(predicate.of_volume), rows)
        elif predicate.of_class is not None:
            of_class, rows = predicate.of_class(classes).astype(np.int32), np.concatenate([np.zeros_like(rows), rows])
        if rows.any():
            bits = rows * BITS(1 << bit)
            joined[key] = of_class, (joined[key][1] | bits if key in joined else bits)
    blocked: Bits = np.zeros((classes.size, node_class_count), BITS)
    for of_class, bits in joined.values():
        blocked |= bits[of_class]
    return StaticAnswers(blocked, by_reason)
