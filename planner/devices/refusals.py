"""Why a search found no devices: for each pool, how many devices refuse the furthest request, by reason.

Looked at is the request that the search could not get over; of a device, the first reason in the order in which the
search looks at it.
"""

from collections.abc import Iterator

from trimtab.planner.devices.demands import DeviceDemand, PreparedClaims
from trimtab.planner.devices.model import DeviceRefusal, PoolId, RefusalKind
from trimtab.planner.devices.pool_view import PoolView
from trimtab.planner.devices.search import DeviceSearch


def refusals_of(search: DeviceSearch, claims: PreparedClaims) -> tuple[DeviceRefusal, ...]:
    """Return the reasons of a search without a solution; never empty."""
    found: list[DeviceRefusal] = []
    for (claim, at, alternative), taken in search.failures.items():
        demand = claims.groups[claim][at].demands[alternative]
        name = claims.claims[claim].name
        found += [
            _refusal(name, demand, pool, kind, count, detail)
            for pool, kind, count, detail in _pools(search, demand, taken)
        ]
        if not search.views:
            found.append(_refusal(name, demand, None, RefusalKind.NO_POOL, 0, ""))
        elif not found:
            found.append(
                _refusal(name, demand, None, RefusalKind.LIMIT if search.exceeded else RefusalKind.SELECTOR, 0, "")
            )
    if not found:
        claim_name = claims.claims[-1].name if claims.claims else ""
        found.append(DeviceRefusal(claim_name, "", None, RefusalKind.LIMIT))
    return tuple(found)


def _refusal(
    claim: str, demand: DeviceDemand, pool: PoolId | None, kind: RefusalKind, count: int, detail: str
) -> DeviceRefusal:
    return DeviceRefusal(claim, demand.name, pool, kind, count, detail)


def _pools(
    search: DeviceSearch, demand: DeviceDemand, taken: tuple[int, ...]
) -> Iterator[tuple[PoolId, RefusalKind, int, str]]:
    for at, view in enumerate(search.views):
        pool = view.pool
        if pool.problem is not None:
            yield pool.id, pool.problem, 0, pool.detail
            continue
        counts: dict[RefusalKind, int] = {}
        for kind, bits in _kinds(search, demand, at, taken[at]):
            if bits:
                counts[kind] = counts.get(kind, 0) + bits.bit_count()
        for kind, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])):
            yield pool.id, kind, count, ""


def _kinds(search: DeviceSearch, demand: DeviceDemand, at: int, taken: int) -> Iterator[tuple[RefusalKind, int]]:
    view = search.views[at]
    rest = (1 << len(view.pool.table.names)) - 1
    if not demand.has_admin_access:
        busy = view.in_use | taken
        yield RefusalKind.IN_USE, rest & busy
        rest &= ~busy
    eligible = search.eligible(at, demand)
    for kind, bits in (
        (RefusalKind.SELECTOR, eligible.matching),
        (RefusalKind.NODE, view.here),
        (RefusalKind.CAPACITY, eligible.large_enough & ~_without_room(search, demand, at, rest)),
    ):
        yield kind, rest & ~bits
        rest &= bits
    counters = _without_counters(view, rest)
    yield RefusalKind.COUNTER, rest & counters
    rest &= ~counters
    yield RefusalKind.TAINT, rest & ~eligible.tolerated
    # What is left was tried: a constraint, or the requests that follow, did not go with it.
    yield RefusalKind.CONSTRAINT, rest & eligible.tolerated


def _without_room(search: DeviceSearch, demand: DeviceDemand, at: int, bits: int) -> int:
    return search.without_room(at, demand, bits)


def _without_counters(view: PoolView, bits: int) -> int:
    group = view.counters
    if group is None:
        return 0
    group.open(view.pool)
    fitting = group.fitting(view.pool)
    table = view.pool.table
    return sum(
        1 << position
        for position, fits in enumerate(fitting)
        if not fits and bits >> position & 1 and table.contents[position].consumes_counters
    )
