"""The kinds of claims of a snapshot, and the resources that stand for what nodes have of them.

A kind has a resource of its own: of it, a node has as many as the allocator gives if no others come. Kinds that compete
for the same devices have one more in common, for each layout of different shares: the share of a kind is one part of as
many as an empty node has of it, so kinds that mix add up. What the sum allows need not fit, if kinds are not alike:
`placements` checks what a plan makes of it. Nodes that are shared in other ways have plenty.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import lcm
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.cluster_devices import resource_of_class
from trimtab.planner.device_amounts.kind_counts import ClaimKind, KindCounts
from trimtab.planner.device_amounts.pod_claims import DeviceFilter, LayoutNode, NodeUse, PodClaims, pod_claims_resource
from trimtab.planner.devices.model import ClaimRequest, DeviceClaim
from trimtab.planner.model.values import DEVICE_RESOURCE

MOST_SEARCHED: Final = 6
"""Kinds beyond that compete for the same devices and that only the allocator can count are not planned with."""
MOST_USES: Final = 400
"""Nodes with different devices in use for which the allocator is asked; further ones get no more of these claims."""
MOST_SHARES: Final = 1 << 40
PLENTY: Final = 1 << 40
"""As good as no bound."""


@dataclass(frozen=True, eq=False)
class ClaimUse:
    """What pods of one spec want of devices."""

    filters: tuple[DeviceFilter, ...]
    """All that they name."""
    counts: Mapping[DeviceFilter, int] | None
    """Devices by filter, None = they want more than a number, or devices that are not given away whole."""
    pod_claims: PodClaims
    """Their claims as one, () = they are not all their own."""


KindKey = DeviceFilter | PodClaims


class ClaimKinds(NamedTuple):
    """kinds : all of them; groups : by number of the filters, the kinds that compete, where several do."""

    kinds: Mapping[KindKey, ClaimKind]
    groups: Mapping[int, Sequence[ClaimKind]]


def claim_kinds(
    uses: Iterable[ClaimUse], group_of: Mapping[DeviceFilter, int], exact: Collection[DeviceFilter]
) -> ClaimKinds:
    """Return the kinds of claims. group_of : filters that compete with each other; exact : those of which any device is
    as good as another."""
    kinds: dict[KindKey, ClaimKind] = {}
    groups: dict[int, dict[KindKey, None]] = {}
    searched: Counter[int] = Counter()
    for use in uses:
        counts = use.counts
        if counts is not None and (len(counts) == 1 or not use.pod_claims or all(wanted in exact for wanted in counts)):
            for device_filter in counts:
                single = (DeviceClaim("", (ClaimRequest("device", device_filter.request),)),)
                kinds[device_filter] = ClaimKind(device_filter, single, device_filter in exact)
                groups.setdefault(group_of[device_filter], {})[device_filter] = None
        elif use.pod_claims and use.pod_claims not in kinds:
            numbers = {group_of[device_filter] for device_filter in use.filters}
            if all(searched[number] < MOST_SEARCHED for number in numbers):
                searched.update(numbers)
                kinds[use.pod_claims] = ClaimKind(None, use.pod_claims, False)
                for number in numbers:
                    groups.setdefault(number, {})[use.pod_claims] = None
    return ClaimKinds(kinds, {number: [kinds[key] for key in keys] for number, keys in groups.items() if len(keys) > 1})


class _Column(NamedTuple):
    """A resource. kinds : those that it is of; shares : of each, () = it is of one kind."""

    kinds: Sequence[KindCounts]
    shares: tuple[int, ...] = ()


class CompetingClaims:
    """The columns of kinds of claims. names : of the columns; kind_of : by column of a single kind; mixtures : of the
    columns of kinds that compete without being alike, the names of their kinds; requested : the columns of each filter
    that is counted, its own one first."""

    def __init__(
        self, listed: ClaimKinds, count_of: Mapping[KindKey, KindCounts], new_nodes: Sequence[Callable[[], LayoutNode]]
    ) -> None:
        """count_of : counts of each kind; new_nodes : makes a node of each layout."""
        self._new_nodes = new_nodes
        self._columns: dict[str, _Column] = {}
        self._requests: dict[KindKey, dict[str, int]] = {}
        self._uses: dict[PodClaims, set[tuple[int, NodeUse]]] = {}
        self.kind_of: dict[str, ClaimKind] = {}
        self.mixtures: dict[str, frozenset[str]] = {}
        for key, kind in listed.kinds.items():
            name = _name_of(kind)
            self._columns[name] = _Column([count_of[key]])
            self._requests[key], self.kind_of[name] = {name: 1}, kind
        for kinds in listed.groups.values():
            keys = [kind.device_filter or kind.claims for kind in kinds]
            self._uses |= {kind.claims: set() for kind in kinds if kind.device_filter is None}
            counts = [count_of[key] for key in keys]
            for shares in sorted({self._shares(counts, layout) for layout in range(len(new_nodes))}):
                if sum(map(bool, shares)) < 2:
                    # What one kind has bounds it.
                    continue
                column = f"{DEVICE_RESOURCE}{_digest((kinds, shares))}"
                self._columns[column] = _Column(counts, shares)
                for key, share in zip(keys, shares, strict=True):
                    self._requests[key] |= {column: share} if share else {}
                if not all(kind.is_counted for kind in kinds):
                    self.mixtures[column] = frozenset(map(_name_of, kinds))
        self.names = tuple(self._columns)
        self.requested = {
            kind.device_filter: tuple(self._requests[kind.device_filter])
            for kind in listed.kinds.values()
            if kind.device_filter is not None and kind.is_counted
        }

    def has(self, key: KindKey) -> bool:
        """Return whether a filter, or all claims of a pod, are planned with here."""
        return key in self._requests

    def requests(self, amounts: Mapping[DeviceFilter, int] | Mapping[PodClaims, int]) -> Counter[str]:
        """Return what is requested for so many devices of filters, or claims of a pod."""
        total: Counter[str] = Counter()
        for key, amount in amounts.items():
            total.update({name: each * amount for name, each in self._requests[key].items()})
        return total

    def left(self, layout: int, use: NodeUse = ()) -> list[int]:
        """Return the amounts of a node, by column."""
        return [self._amount(column, layout, use) for column in self._columns.values()]

    def _amount(self, column: _Column, layout: int, use: NodeUse) -> int:
        if not column.shares:
            return self._count(column.kinds[0], layout, use)
        if column.shares != self._shares(column.kinds, layout):
            return PLENTY
        counts = (self._count(kind, layout, use) for kind in column.kinds)
        return max(count * share for count, share in zip(counts, column.shares, strict=True))

    def _count(self, counts: KindCounts, layout: int, use: NodeUse) -> int:
        uses = self._uses.get(counts.kind.claims) if use else None
        if uses is not None:
            uses.add((layout, use))
            if len(uses) > MOST_USES:
                return 0
        return counts.count(layout, use, self._new_nodes[layout])

    def _shares(self, kinds: Sequence[KindCounts], layout: int) -> tuple[int, ...]:
        """Return the share of each kind on nodes of a layout, 0 = none is there."""
        counts = [kind.count(layout, (), self._new_nodes[layout]) for kind in kinds]
        whole = min(lcm(*(count for count in counts if count)), MOST_SHARES)
        return tuple([whole // count if count else 0 for count in counts])


NO_CLAIMS: Final = CompetingClaims(ClaimKinds({}, {}), {}, ())


def _name_of(kind: ClaimKind) -> str:
    """Return the name of the resource of a kind: that of the class, if every device of it is counted."""
    if kind.device_filter is None:
        return pod_claims_resource(kind.claims)
    device_class = kind.device_filter.device_class
    if kind.is_counted and kind.device_filter == DeviceFilter(device_class):
        return resource_of_class(device_class)
    return f"{DEVICE_RESOURCE}{device_class}-{_digest(kind.device_filter)}"


def _digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=6).hexdigest()
