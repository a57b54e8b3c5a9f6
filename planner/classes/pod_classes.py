"""Pods that no predicate distinguishes share a class. Contract: a class is (scheduling spec, namespace if some term
selects from it, labels in use by selectors, its volumes' requirements on nodes, terminating, gated). The node that a
pod is pinned to is not part of the class, or every DaemonSet pod would have its own class; it is included only if
topology spread counts within the pod's own node affinity.
Cost: O(P + labels), vectorised; loops run over distinct specs only.

Further pods are assigned to existing classes exactly, too (`known_classes`): none if a pod would get a new class, or if
a term might select from its namespace, which has no pods so far. Cost: O(S + further pods), vectorised; loops over the
further pods' labels only.
"""

from collections.abc import Callable, Container
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.label_columns import (
    ABSENT,
    Grouping,
    LabelMatrix,
    LookedAt,
    group_columns,
    group_keys,
    group_rows,
    label_matrix,
)
from trimtab.planner.classes.scheduling_specs import PodsLookedAt, SchedulingSpecs
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import Selector
from trimtab.planner.snapshot.columns import NO_NODE, UNKNOWN_NODE, Bool, Int32, Int64, LabelSets
from trimtab.planner.snapshot.references import NONE, take_or


class PodRows(NamedTuple):
    """The pods to classify: the snapshot's, then virtual ones.

    namespace : int32[P] into the strings; spec : int32[P] scheduling spec; label_set, pinned : int32[P] as in the
    snapshot; volume_set : int32[P], 0 = none; terminating, gated, spread_expired : bool[P].
    """

    namespace: Int32
    spec: Int32
    label_set: Int32
    pinned: Int32
    volume_set: Int32
    terminating: Bool
    gated: Bool
    spread_expired: Bool


class PodClasses(NamedTuple):
    """S pod classes.

    of : int32[P]; first : int64[S] a pod of each; spec, volume_set : int32[S]; namespace : int32[S] into `namespaces`,
    the last of which stands for all from which no term selects; label_group : int32[S] into the groups of `labels`;
    pinned : int32[S] as in the snapshot, NO_NODE if it is not part of the class; terminating, gated, spread_expired
    : bool[S]; flags : int32[S] those of them that are part of the class.
    """

    of: Int32
    first: np.ndarray[tuple[int], np.dtype[np.int64]]
    spec: Int32
    volume_set: Int32
    namespace: Int32
    label_group: Int32
    pinned: Int32
    terminating: Bool
    gated: Bool
    spread_expired: Bool
    flags: Int32
    namespaces: tuple[str, ...]
    labels: LabelMatrix

    @property
    def size(self) -> int:
        """The number of classes, S."""
        return len(self.spec)


def note_selector(selector: Selector | None, looked_at: LookedAt) -> None:
    """Note the labels that a pod selector uses."""
    for requirement in selector or ():
        looked_at.requirement(requirement)


def pod_classes(
    strings: tuple[str, ...], sets: LabelSets, pods: PodRows, specs: SchedulingSpecs, limits: RequestLimits = UNLIMITED
) -> PodClasses:
    """Build the classes of all pods."""
    looking = [spec for spec in specs.looks_at if spec is not None]
    looked_at = LookedAt()
    for spec in looking:
        for selector in spec.selectors:
            note_selector(selector, looked_at)
        for key in spec.keys:
            looked_at.all_values(key)
    namespaces, namespace = _namespaces(strings, pods, specs, looking)
    is_own = namespace < len(namespaces) - 1
    used_sets = group_keys(np.where(is_own, pods.label_set, 0).astype(np.int64), len(sets.offsets) - 1)
    rows = np.where(is_own, pods.label_set, 0)[used_sets.first].astype(np.int32)
    labels = label_matrix(strings, sets, rows, looked_at, limits)
    label_group = labels.groups.of[used_sets.of] if labels.columns else np.zeros(len(pods.spec), np.int32)
    is_terminating_read = any(spec.is_terminating for spec in looking)
    flags = (pods.gated * 2 + pods.spread_expired * 4 + (pods.terminating & is_terminating_read)).astype(np.int32)
    pinned = pinned_in_class(pods.pinned, pods.spec, specs)
    groups = group_columns(class_columns(pods.spec, namespace, label_group, flags, pods.volume_set, pinned))
    return _of_first_pods(groups, pods, namespace, label_group, flags, pinned, namespaces, labels)


def class_columns(*columns: Int32) -> list[tuple[NDArray[np.int_] | Int32 | Int64, int]]:
    """Return the columns that make a class, for `group_columns`: scheduling spec, namespace, label group, flags,
    volume set, pinned node."""
    *others, pinned = columns
    return [(column, int(column.max(initial=0)) + 1) for column in (*others, pinned - UNKNOWN_NODE)]


def _of_first_pods(
    groups: Grouping,
    pods: PodRows,
    namespace: Int32,
    label_group: Int32,
    flags: Int32,
    pinned: Int32,
    namespaces: tuple[str, ...],
    labels: LabelMatrix,
) -> PodClasses:
    """Return the classes with the columns of the first pod of each. namespace, label_group, flags, pinned : int32[P],
    as in `PodClasses`."""
    first = groups.first
    return PodClasses(
        groups.of,
        first,
        pods.spec[first],
        pods.volume_set[first],
        namespace[first],
        label_group[first],
        pinned[first],
        pods.terminating[first],
        pods.gated[first],
        pods.spread_expired[first],
        flags[first],
        namespaces,
        labels,
    )


def _namespaces(
    strings: tuple[str, ...], pods: PodRows, specs: SchedulingSpecs, looking: list[PodsLookedAt]
) -> tuple[tuple[str, ...], Int32]:
    """Return the namespaces that some term selects from, then "", and each pod's index among them."""
    count = len(strings)
    looked_into = np.zeros(count, np.bool_)
    if any(spec.namespace_selectors for spec in looking):
        looked_into[pods.namespace] = True
    elif looking:
        has_terms = np.fromiter((spec is not None for spec in specs.looks_at), np.bool_, len(specs.rows))
        looked_into[pods.namespace[has_terms[pods.spec]]] = True
        names = {name for spec in looking for name in spec.namespaces}
        present = np.flatnonzero(np.bincount(pods.namespace, minlength=count))
        looked_into[[i for i in present.tolist() if strings[i] in names]] = True
    indices = np.flatnonzero(looked_into)
    number = np.full(count, len(indices), np.int32)
    number[indices] = np.arange(len(indices), dtype=np.int32)
    return (*(strings[i] for i in indices.tolist()), ""), number[pods.namespace]


def pinned_in_class(pinned: Int32, spec: Int32, specs: SchedulingSpecs) -> Int32:
    """Return the node of each pinned pod if it is part of its class, else NO_NODE. pinned : int32[P]; spec :
    int32[P], -1 = one for which it is not."""
    within = np.array([spec is not None and spec.is_own_node for spec in specs.looks_at], np.bool_)
    if not within.any():
        return np.full(len(pinned), NO_NODE, np.int32)
    return np.where(take_or(within, spec, False), pinned, NO_NODE).astype(np.int32)


def classes_by_spec(classes: PodClasses, spec_count: int) -> list[Int64]:
    """Return the classes of each scheduling spec, ascending : spec_count arrays int64[k]. Terms are evaluated
    once per spec, not per pod."""
    order = np.argsort(classes.spec, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(classes.spec, minlength=spec_count)).tolist()
    return [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def label_groups(labels: LabelMatrix, sets: list[dict[str, str]]) -> Int32:
    """Return the group of each label set, or a number from `labels.groups.size` on for a new one."""
    codes = np.full((len(sets), len(labels.columns)), ABSENT, np.int32)
    for row, pairs in enumerate(sets):
        for key, column in labels.columns.items():
            value = pairs.get(key)
            if value is not None:
                codes[row, column] = labels.code_of[column].get(value, labels.other[column])
    return group_rows(np.concatenate([labels.codes, codes])).of[len(labels.codes) :]


def namespace_numbers(classes: PodClasses, names: list[str], holding: Callable[[], Container[str]]) -> Int32:
    """Return the index of each namespace in `classes.namespaces`, NONE if it has no pods. holding : those that have
    pods."""
    number = {name: at for at, name in enumerate(classes.namespaces[:-1])}
    out = np.array([number.get(name, NONE) for name in names], np.int32)
    if (out == NONE).any():
        held = holding()
        elsewhere = len(classes.namespaces) - 1
        out[:] = [elsewhere if at == NONE and name in held else at for at, name in zip(out, names, strict=True)]
    return out


def known_classes(
    classes: PodClasses, spec: Int32, namespace: Int32, label_group: Int32, pinned: Int32, spread_expired: Bool
) -> NDArray[np.int64]:
    """Return the class of each further pod : int64[pods], or NONE.

    spec, namespace : int32[pods], NONE = not known; label_group : int32[pods]; pinned : int32[pods] as far as it
    is part of the class; spread_expired : bool[pods]. The pods are neither terminating nor gated and mount nothing.
    """
    unknown = (spec == NONE) | (namespace == NONE)
    zeros = np.zeros(len(spec), np.int32)
    flags = classes.flags.astype(np.int32)
    groups = group_columns(
        class_columns(
            np.concatenate([classes.spec, np.maximum(spec, 0)]),
            np.concatenate([classes.namespace, np.maximum(namespace, 0)]),
            np.concatenate([classes.label_group, label_group]),
            np.concatenate([flags, zeros + 4 * spread_expired.astype(np.int32)]),
            np.concatenate([classes.volume_set, zeros]),
            np.concatenate([classes.pinned, pinned]),
        )
    )
    having = np.full(groups.size, NONE, np.int64)
    having[groups.of[: classes.size]] = np.arange(classes.size)
    return np.where(unknown, NONE, having[groups.of[classes.size :]])
