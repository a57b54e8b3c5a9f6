"""License seats: a node takes at most two pods with the same value of the label `example.com/license`."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.classes.scheduling_specs import PodsLookedAt, SchedulingSpec
from trimtab.planner.predicates.counter_kind import (
    BuildContext,
    CountedPredicate,
    CounterKind,
    ListBuilder,
    Lists,
    NodeLimit,
    items_of,
    rows_by_number,
)
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1.reason_pb2 import PredicateReason

SEATS: Final = 2
_KEY: Final = "example.com/license"


class LicenseCounters(NamedTuple):
    """seat : int32[n, 1] the license of a class, with offsets : int32[S+1]; used : int32[licenses, N] pods on a
    node."""

    seat_offsets: Int32
    seat: Int32
    used: Int32


class LicenseBuilder:
    """Collects the classes of each license."""

    def __init__(self, context: BuildContext) -> None:
        self._seats = ListBuilder(context.classes.size, 1, context.limits)
        self._nodes = len(context.traits)
        self._number: dict[str, int] = {}

    def add(self, of_class: int, name: str) -> None:
        """Count pods of a class as users of a license."""
        self._seats.add(np.array([of_class], np.int64), self._number.setdefault(name, len(self._number)))

    def build(self) -> LicenseCounters:
        """Return the counters, all 0."""
        return LicenseCounters(*self._seats.build(), np.zeros((len(self._number), self._nodes), np.int32))


def _add(context: BuildContext, builder: LicenseBuilder) -> None:
    for of_class, group in enumerate(context.classes.label_group.tolist()):
        name = context.classes.labels.value(group, _KEY)
        if name is not None:
            builder.add(of_class, name)


def _local(licenses: LicenseCounters) -> Bool:
    return np.ones(len(licenses.seat_offsets) - 1, np.bool_)


def _node_limits(licenses: LicenseCounters, classes: Int64) -> Iterator[NodeLimit]:
    keys, _ = items_of(Lists(licenses.seat_offsets, licenses.seat), classes)
    number, row = np.divmod(np.sort(keys), max(len(classes), 1))
    yield from (NodeLimit(rows, SEATS) for rows in rows_by_number(number, row))


def _kept_out(licenses: LicenseCounters, classes: Int64) -> Bool:
    return np.diff(licenses.seat_offsets)[classes] > 0


def _every_spec(_: SchedulingSpec) -> bool:
    return True


def _looks_at(_: SchedulingSpec) -> PodsLookedAt:
    return PodsLookedAt(keys=(_KEY,))


LICENSES: Final = CounterKind(
    "license_seats",
    cost=4,
    builder=LicenseBuilder,
    written=("used",),
    lists=("seat",),
    local=_local,
    node_limits=_node_limits,
    kept_out=_kept_out,
)
LICENSE_SEATS: Final = CountedPredicate(
    (PredicateReason.LICENSE_SEATS_TAKEN,), LICENSES, add=_add, concerns=_every_spec, looks_at=_looks_at
)
