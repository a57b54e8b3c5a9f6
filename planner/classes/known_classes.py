"""Assign further pods to existing classes. Contract: exact. A pod gets the class that
`trimtab.planner.classes.pod_classes` would give it; none if it would get a new class, or if a term might select from
its namespace, which has no pods so far.
Cost: O(S + further pods), vectorised; loops over the further pods' labels only.
"""

from collections.abc import Callable, Container

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.grouping import group_columns, group_rows
from trimtab.planner.classes.label_columns import ABSENT, LabelMatrix
from trimtab.planner.classes.pod_classes import PodClasses, class_columns
from trimtab.planner.classes.scheduling_specs import SchedulingSpecs
from trimtab.planner.model.values import LabelRequirement, Selector
from trimtab.planner.snapshot.columns import Bool, Int32
from trimtab.planner.snapshot.references import NONE
from trimtab.v1.snapshot_pb2 import LabelOperator


def label_groups(labels: LabelMatrix, sets: list[dict[str, str]]) -> Int32:
    """Return the group of each label set, or a number from `labels.groups.size` on for a new one."""
    codes = np.full((len(sets), len(labels.columns)), ABSENT, np.int32)
    for row, one in enumerate(sets):
        for key, column in labels.columns.items():
            value = one.get(key)
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


def selectors_of(specs: SchedulingSpecs) -> list[Selector]:
    """Return the distinct selectors by which predicates read other pods. O(specs)."""
    return list(dict.fromkeys(selector for one in specs.looks_at if one is not None for selector in one.selectors))


def may_be_selected(selectors: list[Selector], labels: dict[str, str]) -> bool:
    """Return whether some selector selects a pod with these labels, whatever its namespace."""
    return any(all(_may_hold(one, labels) for one in selector) for selector in selectors)


def _may_hold(requirement: LabelRequirement, labels: dict[str, str]) -> bool:
    value = labels.get(requirement.key)
    if requirement.operator == LabelOperator.IN:
        return value is not None and value in requirement.values
    if requirement.operator == LabelOperator.NOT_IN:
        return value is None or value not in requirement.values
    if requirement.operator == LabelOperator.EXISTS:
        return value is not None
    # An operator that pod selectors do not know counts as a possible match.
    return requirement.operator != LabelOperator.DOES_NOT_EXIST or value is None
