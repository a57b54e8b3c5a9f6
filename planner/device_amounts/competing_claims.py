"""The competitions of a snapshot: which kinds of claims compete, and the resources that stand for what is left to them.

Filters of which any device is as good as another compete among themselves, and are counted; claims of pods with which
no others compete are one kind by themselves, of which a node has as many as the allocator gives. A competition has a
resource for each kind, of which a node that is closed to the kind has none, and with several kinds, one more for each
way in which nodes are shared: pods request their shares of it. Nodes that are shared in other ways have plenty.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.cluster_devices import resource_of_class
from trimtab.planner.device_amounts.groups import linked_sets
from trimtab.planner.device_amounts.node_shares import (
    MOST_KINDS,
    NOTHING_LEFT,
    PLENTY,
    ClaimKind,
    Competition,
    KnownShares,
    SharesLeft,
)
from trimtab.planner.device_amounts.pod_claims import DeviceFilter, LayoutNode, NodeUse, PodClaims, pod_claims_resource
from trimtab.planner.devices.model import ClaimRequest, DeviceClaim
from trimtab.planner.model.values import DEVICE_RESOURCE

MOST_USES: Final = 400
"""Nodes with different devices in use for which the allocator is asked; further ones get no more of these claims."""


@dataclass(frozen=True, eq=False)
class ClaimUse:
    """What pods of one spec want of devices."""

    filters: tuple[DeviceFilter, ...]
    """All that they name."""
    counts: Mapping[DeviceFilter, int] | None
    """Devices by filter, None = they want more than a number, or devices that are not given away whole."""
    pod_claims: PodClaims
    """Their claims as one, () = they are not all their own."""


def competitions(
    uses: Sequence[ClaimUse], group_of: Mapping[DeviceFilter, int], exact: Iterable[DeviceFilter]
) -> list[Competition]:
    """Return what competes for the same devices, or with nothing. group_of : filters that compete with each other;
    exact : those that are counted exactly where only they compete."""
    counted = frozenset(exact)
    alone = _without_others(uses, group_of, counted)
    made: list[Competition] = [(ClaimKind(None, pod_claims, False),) for pod_claims in alone]
    for numbers, members in _components(uses, group_of):
        if members[0].pod_claims in alone:
            continue
        filters = [
            device_filter for use in members for device_filter in use.counts or () if group_of[device_filter] in numbers
        ]
        kinds = [
            ClaimKind(device_filter, _single(device_filter), device_filter in counted)
            for device_filter in dict.fromkeys(filters)
        ]
        claims_of_pods = dict.fromkeys(use.pod_claims for use in members if use.counts is None and use.pod_claims)
        every = [*kinds, *(ClaimKind(None, pod_claims, False) for pod_claims in claims_of_pods)]
        chosen = every if len(every) <= MOST_KINDS else kinds
        if len(chosen) <= MOST_KINDS and not all(kind.is_counted for kind in chosen):
            made.append(tuple(chosen))
            continue
        by_group: dict[int, list[ClaimKind]] = {}
        for kind in kinds:
            if kind.device_filter is not None and kind.is_counted:
                by_group.setdefault(group_of[kind.device_filter], []).append(kind)
        made += map(tuple, by_group.values())
    return made


def _without_others(
    uses: Iterable[ClaimUse], group_of: Mapping[DeviceFilter, int], counted: frozenset[DeviceFilter]
) -> dict[PodClaims, None]:
    """Return the claims of pods for whose devices nothing else asks."""
    users: dict[int, set[object]] = {}
    found: dict[PodClaims, set[int]] = {}
    for use in uses:
        is_counted = use.counts is not None and counted.issuperset(use.counts)
        numbers = {group_of[device_filter] for device_filter in use.filters}
        if use.pod_claims and not is_counted:
            found[use.pod_claims] = numbers
        for number in numbers:
            users.setdefault(number, set()).add(use if is_counted else use.pod_claims or use)
    return dict.fromkeys(one for one, numbers in found.items() if all(users[number] == {one} for number in numbers))


def _components(
    uses: Sequence[ClaimUse], group_of: Mapping[DeviceFilter, int]
) -> Iterable[tuple[frozenset[int], list[ClaimUse]]]:
    """Yield the groups of filters that claims link, with the claims that ask for some of them."""
    links = (
        (group_of[device_filter], group_of[use.filters[0]])
        for use in uses
        if use.counts is None and use.pod_claims
        for device_filter in use.filters[1:]
    )
    set_of = {
        number: numbers for numbers in map(frozenset, linked_sets(group_of.values(), links)) for number in numbers
    }
    members: dict[frozenset[int], list[ClaimUse]] = {}
    for use in uses:
        for numbers in dict.fromkeys(set_of[group_of[device_filter]] for device_filter in use.filters):
            members.setdefault(numbers, []).append(use)
    yield from members.items()


def _single(device_filter: DeviceFilter) -> PodClaims:
    return (DeviceClaim("", (ClaimRequest("device", device_filter.request),)),)


def _digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=6).hexdigest()


class _SharesColumn(NamedTuple):
    """A resource: of a kind, or of all that are shared in one way."""

    competition: int
    kind: int
    """-1 = of all."""
    shares: tuple[int, ...] = ()


class CompetingClaims:
    """The columns of competitions. names : of the columns; requested : those of each filter that is counted, its own
    one first."""

    def __init__(self, known: Sequence[KnownShares], new_nodes: Sequence[Callable[[], LayoutNode]]) -> None:
        """known : of each competition; new_nodes : makes one of each layout."""
        self._known = known
        self._node_shares = [[one.of(layout, new) for layout, new in enumerate(new_nodes)] for one in known]
        self._columns: dict[str, _SharesColumn] = {}
        self._requests: dict[DeviceFilter | PodClaims, dict[str, int]] = {}
        self._seen: list[set[object]] = [set() for _ in known]
        self.requested: dict[DeviceFilter, tuple[str, ...]] = {}
        for number, competition in enumerate(one.competition for one in known):
            node_shares = self._node_shares[number] if len(competition) > 1 else ()
            shared = {
                f"{DEVICE_RESOURCE}{_digest((competition, shares))}": shares
                for shares in sorted({one.shares for one in node_shares if one is not None})
            }
            for at, kind in enumerate(competition):
                name = _name_of(kind)
                self._columns[name] = _SharesColumn(number, at)
                requests = {name: 1} | {of_all: shares[at] for of_all, shares in shared.items() if shares[at]}
                self._requests[kind.device_filter or kind.claims] = requests
                if kind.device_filter is not None and kind.is_counted:
                    self.requested[kind.device_filter] = tuple(requests)
            self._columns |= {name: _SharesColumn(number, -1, shares) for name, shares in shared.items()}
        self.names = tuple(self._columns)

    def has(self, one: DeviceFilter | PodClaims) -> bool:
        """Return whether a filter, or all claims of a pod, are planned with here."""
        return one in self._requests

    def requests(self, amounts: Mapping[DeviceFilter, int] | Mapping[PodClaims, int]) -> Counter[str]:
        """Return what is requested for so many devices of filters, or claims of a pod."""
        found: Counter[str] = Counter()
        for one, amount in amounts.items():
            found.update({name: each * amount for name, each in self._requests[one].items()})
        return found

    def left(self, layout: int, use: NodeUse = ()) -> list[int]:
        """Return the amounts of a node, by column."""
        found: list[SharesLeft | None] = []
        for known, node_shares, seen in zip(self._known, self._node_shares, self._seen, strict=True):
            if use and known.is_searched and len(known.competition) > 1:
                seen.add((layout, use))
            if node_shares[layout] is None:
                found.append(None)
            else:
                found.append(NOTHING_LEFT if len(seen) > MOST_USES else known.left(layout, use))
        return [self._amount(column, found[column.competition], layout, use) for column in self._columns.values()]

    def _amount(self, column: _SharesColumn, left: SharesLeft | None, layout: int, use: NodeUse) -> int:
        number, kind, shares = column
        if kind >= 0:
            device_filter, _, is_counted = self._known[number].competition[kind]
            if is_counted and device_filter is not None:
                return self._known[number].free(layout, use, device_filter)
        node_shares = self._node_shares[number][layout]
        if left is None or node_shares is None:
            return PLENTY if kind < 0 else 0
        if kind < 0:
            return left.sum if shares == node_shares.shares else PLENTY
        share = node_shares.shares[kind]
        return left.sum // share if left.open >> kind & 1 and share else 0


def _name_of(kind: ClaimKind) -> str:
    """Return the name of the resource of a kind: that of the class, if every device of it is counted."""
    if kind.device_filter is None:
        return pod_claims_resource(kind.claims)
    device_class = kind.device_filter.device_class
    if kind.is_counted and kind.device_filter == DeviceFilter(device_class):
        return resource_of_class(device_class)
    return f"{DEVICE_RESOURCE}{device_class}-{_digest(kind.device_filter)}"
