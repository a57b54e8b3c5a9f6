"""TaintToleration: a NoSchedule or NoExecute taint that no toleration covers excludes the node.

Contract: `tolerationSeconds` and PreferNoSchedule have no part. Lt and Gt compare canonical decimals of 64 bits. The
scheduling spec of a pod has tolerations with them only where a setting says so. Source: plugin tainttoleration and
core/v1 Toleration.ToleratesTaint, v1.37.2.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.scheduling_specs import TOLERATIONS
from trimtab.planner.model.execution import UNLIMITED, RequestLimits
from trimtab.planner.model.values import TaintSpec, TolerationSpec
from trimtab.planner.predicates.static import StaticNodes, StaticPredicate
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.reason_pb2 import PredicateReason
from trimtab.v1.snapshot_pb2 import TaintEffect, TolerationOperator

_EXCLUDING = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]*")
_EQUAL = (TolerationOperator.UNSPECIFIED, TolerationOperator.EQUAL)


def tolerates(toleration: TolerationSpec, taint: TaintSpec) -> bool:
    """Return whether one toleration covers one taint; Lt and Gt cover nothing here."""
    if toleration.effect not in (TaintEffect.UNSPECIFIED, taint.effect):
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in _EQUAL:
        return toleration.value == taint.value
    return toleration.operator == TolerationOperator.EXISTS


def any_tolerates(tolerations: tuple[TolerationSpec, ...], taint: TaintSpec) -> bool:
    """Return whether one of the tolerations covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def _decimal(text: str) -> int | None:
    """Return a canonical decimal of 64 bits, None for any other text. Source: apimachinery IsDecimalInteger."""
    if not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class _Taints:
    """Distinct taints, indexed for look-ups by tolerations. Numbers as in `numbers`."""

    def __init__(self, taints: Iterable[TaintSpec]) -> None:
        self.numbers = {taint: at for at, taint in enumerate(dict.fromkeys(taints))}
        self._effect = np.array([taint.effect for taint in self.numbers], np.int64)
        self._by_key: dict[str, list[tuple[int, int]]] = {}
        self._found: dict[tuple[str | None, str | None], list[int]] = {}
        for taint, at in self.numbers.items():
            if (level := _decimal(taint.value)) is not None:
                self._by_key.setdefault(taint.key, []).append((at, level))
            for attribute in (
                (taint.key, taint.value),
                (taint.key, None),
                (None, taint.value),
                (None, None),
            ):
                self._found.setdefault(attribute, []).append(at)

    def tolerated_by(self, toleration: TolerationSpec) -> NDArray[np.int64]:
        """Return the numbers of the taints that a toleration covers; agrees with `tolerates`, but compares numbers."""
        if toleration.operator in _EQUAL:
            value: str | None = toleration.value
        elif toleration.operator == TolerationOperator.EXISTS:
            value = None
        else:
            return self._with_effect(toleration, np.array(self._compared(toleration), np.int64))
        return self._with_effect(toleration, np.array(self._found.get((toleration.key or None, value), ()), np.int64))

    def _compared(self, toleration: TolerationSpec) -> list[int]:
        """Return the numbers of the taints that Lt and Gt cover, whatever their effect."""
        bound = _decimal(toleration.value)
        if bound is None or toleration.operator not in (TolerationOperator.LT, TolerationOperator.GT):
            return []
        keys = (toleration.key,) if toleration.key else tuple(self._by_key)
        levels = sorted(pair for key in keys for pair in self._by_key.get(key, ()))
        is_less = toleration.operator == TolerationOperator.LT
        return [at for at, level in levels if (level < bound if is_less else level > bound)]

    def _with_effect(self, toleration: TolerationSpec, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        if toleration.effect == TaintEffect.UNSPECIFIED:
            return numbers
        having_effect: NDArray[np.int64] = numbers[self._effect[numbers] == toleration.effect]
        return having_effect


def untolerated(
    toleration_sets: Sequence[tuple[TolerationSpec, ...]],
    taint_sets: tuple[tuple[TaintSpec, ...], ...],
    limits: RequestLimits = UNLIMITED,
) -> Bool:
    """Return which sets of tolerations leave a taint of which taint set uncovered : bool[toleration sets, taint sets].

    O(taints + tolerations + pairs of a set of tolerations and a taint that it covers).
    """
    excluding = [{taint for taint in taint_set if taint.effect in _EXCLUDING} for taint_set in taint_sets]
    taints = _Taints(taint for excluded in excluding for taint in excluded)
    sizes = np.array([len(excluded) for excluded in excluding], np.int32)
    number = np.array([taints.numbers[taint] for excluded in excluding for taint in excluded], np.int64)
    # The sets that have taint t are having[starts[t] : starts[t + 1]].
    having = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(number, kind="stable")]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(number, minlength=len(taints.numbers)))))
    limits.reserve(len(toleration_sets) * len(taint_sets), "tolerations times taints")
    out = np.empty((len(toleration_sets), len(taint_sets)), np.bool_)
    covered_by: dict[TolerationSpec, NDArray[np.int64]] = {}
    for row, tolerations in enumerate(toleration_sets):
        limits.check()
        is_covered = np.zeros(len(taints.numbers), np.bool_)
        for toleration in tolerations:
            if toleration not in covered_by:
                covered_by[toleration] = taints.tolerated_by(toleration)
            is_covered[covered_by[toleration]] = True
        covered = np.flatnonzero(is_covered)
        counts = starts[covered + 1] - starts[covered]
        ends = np.cumsum(counts)
        places = np.arange(int(counts.sum())) + np.repeat(starts[covered] - (ends - counts), counts)
        out[row] = np.bincount(having[places], minlength=len(sizes)) < sizes
    return out


def _excluded(toleration_sets: Sequence[tuple[TolerationSpec, ...]], nodes: StaticNodes) -> Bool:
    classes = nodes.classes
    return untolerated(toleration_sets, classes.taint_sets, nodes.limits)[:, classes.taint_set]


TAINT_TOLERATION: Final = StaticPredicate(PredicateReason.TAINT_NOT_TOLERATED, _excluded, of_spec=TOLERATIONS)
