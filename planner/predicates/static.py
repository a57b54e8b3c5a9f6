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
from trimtab.planner.predicates.volume_sets import VolumePart, VolumeSets
from trimtab.planner.snapshot.columns import Bool, Int32, Int64

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


class StaticPods(NamedTuple):
    """The pods' side. values : of each predicate, the distinct values that it reads."""

    specs: SchedulingSpecs
    classes: PodClasses
    volume_sets: VolumeSets


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
    predicates: Sequence[StaticPredicate], pods: StaticPods, nodes: NodeClasses, limits: RequestLimits
) -> StaticAnswers:
    """Evaluate all static predicates. O(V · K) for each, then O(S · K) for each kind of value that refuses a node."""
    specs, classes, volume_sets = pods
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
