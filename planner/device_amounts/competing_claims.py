"""The competitions of a snapshot: which kinds of claims compete, and the resources that stand for what is left to them.

A competition has a resource for each kind, of which a node that is closed to the kind has none, and one resource for
each way in which nodes are shared: pods request their shares of it. Nodes that are shared in other ways have plenty.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.asks import Ask
from trimtab.planner.device_amounts.bundles import Bundle, NodeOfKind, bundle_resource
from trimtab.planner.device_amounts.layouts import (
    MOST_KINDS,
    PLENTY,
    ClaimKind,
    Competition,
    KnownLayouts,
    SharesLeft,
)
from trimtab.planner.devices.model import AllocatedDevice, ClaimRequest, DeviceClaim
from trimtab.planner.model.values import DEVICE_RESOURCE

MOST_USES: Final = 400
"""Nodes with different devices in use for which the allocator is asked; further ones get no more of these claims."""


class ClaimUse(NamedTuple):
    """What pods of one spec claim."""

    asks: tuple[Ask, ...]
    counts: Mapping[Ask, int] | None
    """Devices by ask, if each is given away whole and only their number counts."""
    bundle: Bundle
    """The claims as one, () = they are not all the pod's own."""


def competitions(
    uses: Iterable[ClaimUse], group_of: Mapping[Ask, int], exact: Iterable[Ask], alone: Container[Bundle]
) -> list[Competition]:
    """Return what competes for the same devices without being alike. group_of : asks that compete with each other;
    exact : those that are counted exactly where only they compete; alone : what competes with nothing."""
    counted = frozenset(exact)
    made = []
    for numbers, members in _components(list(uses), group_of):
        asks = [ask for use in members for ask in use.counts or () if group_of[ask] in numbers]
        kinds = [ClaimKind(ask, _single(ask), ask in counted) for ask in dict.fromkeys(asks)]
        bundles = dict.fromkeys(use.bundle for use in members if use.counts is None and use.bundle)
        every = [*kinds, *(ClaimKind(None, bundle, False) for bundle in bundles)]
        chosen = every if len(every) <= MOST_KINDS else kinds
        is_planned = not all(kind.is_counted for kind in chosen) and members[0].bundle not in alone
        if is_planned and len(chosen) <= MOST_KINDS:
            made.append(tuple(chosen))
    return made


def _components(
    uses: Sequence[ClaimUse], group_of: Mapping[Ask, int]
) -> Iterable[tuple[frozenset[int], list[ClaimUse]]]:
    """Yield the groups of asks that claims link, with the claims that ask for some of them."""
    leader = {number: number for number in group_of.values()}

    def find(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    for use in uses:
        if use.counts is None and use.bundle:
            for ask in use.asks[1:]:
                leader[find(group_of[ask])] = find(group_of[use.asks[0]])
    found: dict[int, list[ClaimUse]] = {}
    for use in uses:
        for number in dict.fromkeys(find(group_of[ask]) for ask in use.asks):
            found.setdefault(number, []).append(use)
    for number, members in found.items():
        yield frozenset(one for one in leader if find(one) == number), members


def _single(ask: Ask) -> Bundle:
    return (DeviceClaim("", (ClaimRequest("device", ask.request),)),)


def _digest(value: object) -> str:
    return blake2b(repr(value).encode(), digest_size=6).hexdigest()


class _LayoutColumn(NamedTuple):
    """A resource: of a kind, or of all that are shared in one way."""

    competition: int
    kind: int
    """-1 = of all."""
    shares: tuple[int, ...] = ()


class CompetingClaims:
    """The columns of competitions. names : of the columns."""

    def __init__(self, known: Sequence[KnownLayouts], new_nodes: Sequence[Callable[[], NodeOfKind]]) -> None:
        """known : of each competition; new_nodes : makes one of each profile."""
        self._known = known
        self._layouts = [[one.of(profile, new) for profile, new in enumerate(new_nodes)] for one in known]
        self._columns: dict[str, _LayoutColumn] = {}
        self._place: dict[Ask | Bundle, tuple[int, int]] = {}
        self._seen: list[set[object]] = [set() for _ in known]
        for number, competition in enumerate(one.competition for one in known):
            for at, kind in enumerate(competition):
                self._place[kind.claims if kind.device_filter is None else kind.device_filter] = number, at
                if not kind.is_counted:
                    self._columns[_name_of(kind)] = _LayoutColumn(number, at)
            for shares in sorted({layout.shares for layout in self._layouts[number] if layout is not None}):
                name = f"{DEVICE_RESOURCE}{_digest((competition, shares))}"
                self._columns[name] = _LayoutColumn(number, -1, shares)
        self.names = tuple(self._columns)

    def has(self, one: Ask | Bundle) -> bool:
        """Return whether an ask, or all claims of a pod, are planned with here."""
        return one in self._place

    def requests(self, amounts: Mapping[Ask, int] | Mapping[Bundle, int]) -> dict[str, int]:
        """Return what is requested for so many devices of asks, or claims of a pod; others count for nothing."""
        found: dict[str, int] = {}
        for one, amount in amounts.items():
            number, kind = self._place.get(one, (-1, -1))
            for name, column in self._columns.items():
                if column.competition == number:
                    each = int(column.kind == kind) if column.kind >= 0 else column.shares[kind]
                    if each:
                        found[name] = found.get(name, 0) + each * amount
        return found

    def full(self, profile: int) -> list[int]:
        """Return the amounts of a node of which nothing is in use, by column."""
        layouts = [of[profile] for of in self._layouts]
        return self._row(profile, [None if layout is None else layout.full for layout in layouts])

    def left(self, profile: int, node: NodeOfKind, used: Sequence[AllocatedDevice]) -> list[int]:
        """Return the amounts of a node, by column. used : of its own pools."""
        found: list[SharesLeft | None] = []
        for known, layouts, seen in zip(self._known, self._layouts, self._seen, strict=True):
            if known.is_searched:
                seen.add(known.key(profile, node, used))
            if layouts[profile] is None:
                found.append(None)
            elif len(seen) > MOST_USES:
                found.append(SharesLeft(0, 0))
            else:
                found.append(known.left(profile, node, used))
        return self._row(profile, found)

    def _row(self, profile: int, left: Sequence[SharesLeft | None]) -> list[int]:
        row = []
        for number, kind, shares in self._columns.values():
            found, layout = left[number], self._layouts[number][profile]
            if found is None or layout is None:
                row.append(PLENTY if kind < 0 else 0)
            elif kind < 0:
                row.append(found.sum if shares == layout.shares else PLENTY)
            else:
                share = layout.shares[kind]
                row.append(found.sum // share if found.open >> kind & 1 and share else 0)
        return row


def _name_of(kind: ClaimKind) -> str:
    if kind.device_filter is None:
        return bundle_resource(kind.claims)
    return f"{DEVICE_RESOURCE}{kind.device_filter.device_class}-{_digest(kind.device_filter)}"
