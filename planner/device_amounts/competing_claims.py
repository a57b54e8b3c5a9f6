"""The competitions of a snapshot: which kinds of claims compete, and the resources that stand for what is left to them.

Claims of pods with which no others compete are one kind by themselves, of which a node has as many as the allocator
gives. A competition has a resource for each kind, of which a node that is closed to the kind has none; with several
kinds, it has one more for each way in which nodes are shared: pods request their shares of it. Nodes that are shared in
other ways have plenty.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.node_shares import (
    MOST_KINDS,
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
    """Return what competes for the same devices without being alike, and what competes with nothing but cannot be
    counted otherwise. group_of : filters that compete with each other; exact : those that are counted exactly where
    only they compete."""
    counted = frozenset(exact)
    alone = _without_others(uses, group_of, counted)
    made: list[Competition] = [(ClaimKind(None, pod_claims, False),) for pod_claims in alone]
    for numbers, members in _components(uses, group_of):
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
        is_planned = not all(kind.is_counted for kind in chosen) and members[0].pod_claims not in alone
        if is_planned and len(chosen) <= MOST_KINDS:
            made.append(tuple(chosen))
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
    leader = {number: number for number in group_of.values()}

    def find(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    for use in uses:
        if use.counts is None and use.pod_claims:
            for device_filter in use.filters[1:]:
                leader[find(group_of[device_filter])] = find(group_of[use.filters[0]])
    found: dict[int, list[ClaimUse]] = {}
    for use in uses:
        for number in dict.fromkeys(find(group_of[device_filter]) for device_filter in use.filters):
            found.setdefault(number, []).append(use)
    for number, members in found.items():
        yield frozenset(one for one in leader if find(one) == number), members


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
    """The columns of competitions. names : of the columns."""

    def __init__(self, known: Sequence[KnownShares], new_nodes: Sequence[Callable[[], LayoutNode]]) -> None:
        """known : of each competition; new_nodes : makes one of each layout."""
        self._known = known
        self._node_shares = [[one.of(layout, new) for layout, new in enumerate(new_nodes)] for one in known]
        self._columns: dict[str, _SharesColumn] = {}
        self._place: dict[DeviceFilter | PodClaims, tuple[int, int]] = {}
        self._seen: list[set[object]] = [set() for _ in known]
        for number, competition in enumerate(one.competition for one in known):
            for at, kind in enumerate(competition):
                self._place[kind.claims if kind.device_filter is None else kind.device_filter] = number, at
                if not kind.is_counted:
                    self._columns[_name_of(kind)] = _SharesColumn(number, at)
            for shares in (
                ()
                if len(competition) == 1
                else sorted(
                    {node_shares.shares for node_shares in self._node_shares[number] if node_shares is not None}
                )
            ):
                name = f"{DEVICE_RESOURCE}{_digest((competition, shares))}"
                self._columns[name] = _SharesColumn(number, -1, shares)
        self.names = tuple(self._columns)

    def has(self, one: DeviceFilter | PodClaims) -> bool:
        """Return whether a filter, or all claims of a pod, are planned with here."""
        return one in self._place

    def requests(self, amounts: Mapping[DeviceFilter, int] | Mapping[PodClaims, int]) -> dict[str, int]:
        """Return what is requested for so many devices of filters, or claims of a pod; others count for nothing."""
        found: dict[str, int] = {}
        for one, amount in amounts.items():
            number, kind = self._place.get(one, (-1, -1))
            for name, column in self._columns.items():
                if column.competition == number:
                    each = int(column.kind == kind) if column.kind >= 0 else column.shares[kind]
                    if each:
                        found[name] = found.get(name, 0) + each * amount
        return found

    def full(self, layout: int) -> list[int]:
        """Return the amounts of a node of which nothing is in use, by column."""
        known_shares = [of[layout] for of in self._node_shares]
        return self._row(layout, [None if node_shares is None else node_shares.full for node_shares in known_shares])

    def left(self, layout: int, use: NodeUse) -> list[int]:
        """Return the amounts of a node, by column."""
        found: list[SharesLeft | None] = []
        for known, known_shares, seen in zip(self._known, self._node_shares, self._seen, strict=True):
            if known.is_searched and len(known.competition) > 1:
                seen.add((layout, use))
            if known_shares[layout] is None:
                found.append(None)
            elif len(seen) > MOST_USES:
                found.append(SharesLeft(0, 0))
            else:
                found.append(known.left(layout, use))
        return self._row(layout, found)

    def _row(self, layout: int, left: Sequence[SharesLeft | None]) -> list[int]:
        row = []
        for number, kind, shares in self._columns.values():
            found, node_shares = left[number], self._node_shares[number][layout]
            if found is None or node_shares is None:
                row.append(PLENTY if kind < 0 else 0)
            elif kind < 0:
                row.append(found.sum if shares == node_shares.shares else PLENTY)
            else:
                share = node_shares.shares[kind]
                row.append(found.sum // share if found.open >> kind & 1 and share else 0)
        return row


def _name_of(kind: ClaimKind) -> str:
    if kind.device_filter is None:
        return pod_claims_resource(kind.claims)
    return f"{DEVICE_RESOURCE}{kind.device_filter.device_class}-{_digest(kind.device_filter)}"
