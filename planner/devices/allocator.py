"""The device allocator: which devices the claims of a pod get on a node, as the scheduler would choose them.

The answer is the same yes or no, and the same devices, as that of the structured allocator of Kubernetes
`DeviceFeatures.version`, except that long searches end after a fixed number of steps. It depends on the arguments
alone: what is kept between calls is derived from them. Why there are no devices is said of the request that the search
could not get over: for each pool, how many devices refuse it, by the first reason in the order of the search.

One `DeviceAllocator` serves a cluster whose slices and classes do not change; `prepare` the claims of a pod once, and
ask for each node. Allocations become use by `AllocatedState.add_all`.
"""

from collections.abc import Iterable, Iterator, Sequence

from trimtab.planner.devices.demands import DeviceDemand, PreparedClaims, prepared
from trimtab.planner.devices.eligibility import Eligibility
from trimtab.planner.devices.model import (
    AllocatedDevice,
    AllocatedState,
    AllocationOutcome,
    ClaimAllocation,
    DeviceClaim,
    DeviceClass,
    DeviceError,
    DeviceFeatures,
    DeviceId,
    DeviceInputError,
    DeviceNode,
    DeviceRefusal,
    DevicesAllocated,
    DeviceSlice,
    DevicesRefused,
    NodeSelection,
    PoolId,
    RefusalKind,
)
from trimtab.planner.devices.pool_view import PoolView, each_bit
from trimtab.planner.devices.pools import PoolIndex
from trimtab.planner.devices.search import DeviceSearch, Pick, StepLimitError
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm


def refusals_of(search: DeviceSearch, claims: PreparedClaims) -> tuple[DeviceRefusal, ...]:
    """Return the reasons of a search without a solution; never empty."""
    refusals: list[DeviceRefusal] = []
    for (claim, at, alternative), bits in search.failures.items():
        demand = claims.groups[claim][at].demands[alternative]
        name = claims.claims[claim].name
        reasons = list(_pools(search, demand, bits))
        if not search.views:
            reasons.append((None, RefusalKind.NO_POOL, 0, ""))
        elif not (refusals or reasons):
            reasons.append((None, RefusalKind.LIMIT if search.exceeded else RefusalKind.SELECTOR, 0, ""))
        refusals += [DeviceRefusal(name, demand.name, *reason) for reason in reasons]
    if not refusals:
        claim_name = claims.claims[-1].name if claims.claims else ""
        refusals.append(DeviceRefusal(claim_name, "", None, RefusalKind.LIMIT))
    return tuple(refusals)


def _pools(
    search: DeviceSearch, demand: DeviceDemand, chosen: tuple[int, ...]
) -> Iterator[tuple[PoolId | None, RefusalKind, int, str]]:
    for at, view in enumerate(search.views):
        pool = view.pool
        if pool.problem is not None:
            yield pool.id, pool.problem, 0, pool.detail
            continue
        counts: dict[RefusalKind, int] = {}
        for kind, bits in _kinds(search, demand, at, chosen[at]):
            if bits:
                counts[kind] = counts.get(kind, 0) + bits.bit_count()
        for kind, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
            yield pool.id, kind, count, ""


def _kinds(search: DeviceSearch, demand: DeviceDemand, at: int, chosen: int) -> Iterator[tuple[RefusalKind, int]]:
    view = search.views[at]
    rest = (1 << len(view.pool.table.names)) - 1
    if not demand.has_admin_access:
        busy = view.in_use | chosen
        yield RefusalKind.IN_USE, rest & busy
        rest &= ~busy
    eligible = search.eligible(at, demand)
    for kind, bits in (
        (RefusalKind.SELECTOR, eligible.matching),
        (RefusalKind.NODE, view.here),
        (RefusalKind.CAPACITY, eligible.large_enough & ~search.without_room(at, demand, rest)),
    ):
        yield kind, rest & ~bits
        rest &= bits
    counters = _without_counters(view, rest)
    yield RefusalKind.COUNTER, rest & counters
    rest &= ~counters
    yield RefusalKind.TAINT, rest & ~eligible.tolerated
    # What is left was tried: a constraint, or the requests that follow, did not go with it.
    yield RefusalKind.CONSTRAINT, rest & eligible.tolerated


def _without_counters(view: PoolView, bits: int) -> int:
    group = view.counters
    if group is None:
        return 0
    group.open(view.pool)
    contents = view.pool.table.contents
    return sum(
        bit
        for bit in each_bit(bits)
        if (content := contents[bit.bit_length() - 1]).consumes_counters and not group.fits(content)
    )


DEFAULT_FEATURES = DeviceFeatures()
"""Kubernetes 1.36 with its default feature gates."""


class DeviceAllocator:
    """Allocates devices of a cluster. slices : with the taints of rules, `taint_rules.with_taint_rules`."""

    def __init__(
        self,
        slices: Iterable[DeviceSlice],
        classes: Iterable[DeviceClass],
        features: DeviceFeatures = DEFAULT_FEATURES,
    ) -> None:
        self._features = features
        self._index = PoolIndex(slices, features)
        self._classes = {device_class.name: device_class for device_class in classes}
        self._eligibility = Eligibility(features)

    def prepare(self, claims: Sequence[DeviceClaim]) -> PreparedClaims:
        """Return the claims of a pod as `allocate` takes them; for any number of nodes and states."""
        return prepared(claims, self._classes, self._features)

    def allocate(self, node: DeviceNode, claims: PreparedClaims, state: AllocatedState) -> AllocationOutcome:
        """Return what the claims get on a node, beside what is in use; the state is not changed."""
        try:
            search = DeviceSearch(claims, node, self._index.pools(node), state, self._eligibility, self._features)
            if not search.run():
                return DevicesRefused(refusals_of(search, claims))
            return self._allocated(search, claims, node)
        except DeviceInputError as error:
            return error.error
        except StepLimitError:
            claim = claims.claims[0].name if claims.claims else ""
            return DevicesRefused((DeviceRefusal(claim, "", None, RefusalKind.STEPS),))

    def _allocated(self, search: DeviceSearch, claims: PreparedClaims, node: DeviceNode) -> AllocationOutcome:
        allocations = []
        for claim, picks in zip(claims.claims, search.picks, strict=True):
            devices = tuple(_device(search.views[pick.pool], pick) for pick in picks)
            nodes = _nodes([(search.views[pick.pool], pick) for pick in picks], node)
            allocations.append(ClaimAllocation(claim.name, devices, nodes))
        return DevicesAllocated(tuple(allocations))


def _device(view: PoolView, pick: Pick) -> AllocatedDevice:
    id = view.pool.id
    device = DeviceId(id.driver, id.pool, view.pool.table.names[pick.position])
    demand: DeviceDemand = pick.demand
    consumed = tuple(sorted((pick.consumed or {}).items()))
    return AllocatedDevice(demand.name, device, demand.has_admin_access, pick.consumed is not None, consumed)


def _nodes(picks: list[tuple[PoolView, Pick]], node: DeviceNode) -> NodeSelection | None:
    """Return from where the devices of a claim can be reached: this node, one term, or everywhere."""
    expressions: list[LabelRequirement] = []
    fields: list[LabelRequirement] = []
    for view, pick in picks:
        table = view.pool.table
        content, device_slice = table.contents[pick.position], view.pool.slices[table.slice_of[pick.position]]
        nodes = (content.nodes or NodeSelection()) if device_slice.per_device_nodes else device_slice.nodes
        if nodes.node_name or content.binds_to_node:
            return NodeSelection(node_name=node.name)
        terms = nodes.selector or ()
        if len(terms) > 1:
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise DeviceInputError(DeviceError(f"ResourceSlice {device_slice.name}", "spec.nodeSelector", text))
        for term in terms:
            _add_new(term.match_fields, fields)
            _add_new(term.match_expressions, expressions)
    if not (expressions or fields):
        return None
    return NodeSelection(selector=(NodeAffinityTerm(tuple(expressions), tuple(fields)),))


def _add_new(requirements: tuple[LabelRequirement, ...], requirements_so_far: list[LabelRequirement]) -> None:
    for requirement in requirements:
        is_listed = any(
            (requirement.key, requirement.operator, set(requirement.values))
            == (other.key, other.operator, set(other.values))
            for other in requirements_so_far
        )
        if not is_listed:
            requirements_so_far.append(requirement)
