"""License seats over their counters. O(licenses of the class) each."""

from trimtab.planner.predicates.license_seats import SEATS, LicenseCounters

from trimtab.planner.compiled.decorators import inlined_kernel
from trimtab.planner.predicates.counter_kind import CounterHooks
from trimtab.v1.reason_pb2 import PredicateReason

_TAKEN = int(PredicateReason.LICENSE_SEATS_TAKEN)


@inlined_kernel
def count(licenses: LicenseCounters, pod_class: int, node: int, sign: int) -> None:
    """Count a pod of the class on the node (sign 1), or take it off (sign -1)."""
    for at in range(licenses.seat_offsets[pod_class], licenses.seat_offsets[pod_class + 1]):
        licenses.used[licenses.seat[at, 0], node] += sign


@inlined_kernel
def is_taken(licenses: LicenseCounters, pod_class: int, node: int) -> bool:
    """Return whether no seat of the class's license is left on the node."""
    for at in range(licenses.seat_offsets[pod_class], licenses.seat_offsets[pod_class + 1]):
        if licenses.used[licenses.seat[at, 0], node] >= SEATS:
            return True
    return False


@inlined_kernel
def because(licenses: LicenseCounters, pod_class: int, node: int) -> int:
    """Return the mask `1 << reason` of what refuses a pod of the class on the node."""
    return 1 << _TAKEN if is_taken(licenses, pod_class, node) else 0


@inlined_kernel
def needs_seat(licenses: LicenseCounters, pod_class: int) -> bool:
    """Return whether pods of the class have a license. O(1)."""
    return bool(licenses.seat_offsets[pod_class] < licenses.seat_offsets[pod_class + 1])


HOOKS = CounterHooks(count=count, refuses_for_good=is_taken, because=because, excludes_pods=needs_seat)
