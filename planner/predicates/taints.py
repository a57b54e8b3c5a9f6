"""TaintToleration: a NoSchedule or NoExecute taint that no toleration covers excludes the node.

Contract: `tolerationSeconds` and PreferNoSchedule have no part; operators other than Equal and Exists tolerate nothing.
Source: plugin tainttoleration and core/v1 Toleration.ToleratesTaint, v1.34.3.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.model.effort import UNLIMITED, Effort
from trimtab.planner.model.values import Taint, Toleration
from trimtab.planner.snapshot.columns import Bool
from trimtab.v1.snapshot_pb2 import TaintEffect, TolerationOperator

_EXCLUDING = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
_EQUAL = (TolerationOperator.UNSPECIFIED, TolerationOperator.EQUAL)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether one toleration covers one taint."""
    if toleration.effect not in (TaintEffect.UNSPECIFIED, taint.effect):
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in _EQUAL:
        return toleration.value == taint.value
    return toleration.operator == TolerationOperator.EXISTS


def any_tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return whether one of the tolerations covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


class _Taints:
    """Distinct taints, indexed for look-ups by tolerations. Numbers as in `numbers`."""

    def __init__(self, taints: Iterable[Taint]) -> None:
        self.numbers = {taint: at for at, taint in enumerate(dict.fromkeys(taints))}
        self._effect = np.array([taint.effect for taint in self.numbers], np.int64)
        self._found: dict[tuple[str | None, str | None], list[int]] = {}
        for taint, at in self.numbers.items():
            for asked in (
                (taint.key, taint.value),
                (taint.key, None),
                (None, taint.value),
                (None, None),
            ):
                self._found.setdefault(asked, []).append(at)

    def tolerated_by(self, toleration: Toleration) -> NDArray[np.int64]:
        """Return the numbers of the taints that a toleration covers; agrees with `tolerates`."""
        if toleration.operator in _EQUAL:
            value: str | None = toleration.value
        elif toleration.operator == TolerationOperator.EXISTS:
            value = None
        else:
            return np.zeros(0, np.int64)
        found = np.array(self._found.get((toleration.key or None, value), ()), np.int64)
        if toleration.effect == TaintEffect.UNSPECIFIED:
            return found
        having_effect: NDArray[np.int64] = found[self._effect[found] == toleration.effect]
        return having_effect


def untolerated(
    toleration_sets: list[tuple[Toleration, ...]],
    taint_sets: tuple[tuple[Taint, ...], ...],
    effort: Effort = UNLIMITED,
) -> Bool:
    """Return which sets of tolerations leave a taint of which taint set uncovered : bool[toleration sets, taint sets].

    O(taints + tolerations + pairs of a set of tolerations and a taint that it covers).
    """
    excluding = [{taint for taint in taint_set if taint.effect in _EXCLUDING} for taint_set in taint_sets]
    taints = _Taints(taint for one in excluding for taint in one)
    sizes = np.array([len(one) for one in excluding], np.int32)
    number = np.array([taints.numbers[taint] for one in excluding for taint in one], np.int64)
    # The sets that have taint t are having[starts[t] : starts[t + 1]].
    having = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(number, kind="stable")]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(number, minlength=len(taints.numbers)))))
    effort.take(len(toleration_sets) * len(taint_sets), "tolerations times taints")
    out = np.empty((len(toleration_sets), len(taint_sets)), np.bool_)
    covered_by: dict[Toleration, NDArray[np.int64]] = {}
    for row, tolerations in enumerate(toleration_sets):
        effort.check()
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
