"""TaintToleration: a NoSchedule or NoExecute taint that no toleration covers excludes the node.

Contract: `tolerationSeconds` and PreferNoSchedule have no part; operators other than Equal and Exists tolerate nothing.
Source: plugin tainttoleration and core/v1 Toleration.ToleratesTaint, v1.34.3.
"""

import numpy as np
from trimtab.v1.snapshot_pb2 import TaintEffect, TolerationOperator

from planner.classes.grouping import number_values
from planner.model.values import Taint, Toleration
from planner.snapshot.columns import Bool

_EXCLUDING = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
_EQUAL = (TolerationOperator.UNSPECIFIED, TolerationOperator.EQUAL)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect not in (TaintEffect.UNSPECIFIED, taint.effect):
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in _EQUAL:
        return toleration.value == taint.value
    return toleration.operator == TolerationOperator.EXISTS


def any_tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether one of the tolerations covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def untolerated(toleration_sets: list[tuple[Toleration, ...]], taint_sets: tuple[tuple[Taint, ...], ...]) -> Bool:
    """Return which sets of tolerations leave a taint of which set uncovered : bool[toleration sets, taint sets]."""
    taints = [[taint for taint in taint_set if taint.effect in _EXCLUDING] for taint_set in taint_sets]
    _, distinct = number_values([taint for taint_set in taints for taint in taint_set])
    number = {taint: i for i, taint in enumerate(distinct)}
    bare = np.array(
        [[not any_tolerates(tolerations, taint) for taint in distinct] for tolerations in toleration_sets], np.bool_
    ).reshape(len(toleration_sets), len(distinct))
    out = np.zeros((len(toleration_sets), len(taint_sets)), np.bool_)
    for column, taint_set in enumerate(taints):
        if taint_set:
            out[:, column] = bare[:, [number[taint] for taint in taint_set]].any(axis=1)
    return out
