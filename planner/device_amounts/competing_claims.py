"""The competitions of a snapshot: which kinds of claims compete, and the resources that stand for what is left to them.

A competition has a resource for each kind, of which a node that is closed to the kind has none, and one resource for
each way in which nodes are shared: pods request their shares of it. Nodes that are shared in other ways have plenty.
"""

from collections.abc import Callable, Container, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

from trimtab.planner.device_amounts.asks import Ask
from trimtab.planner.device_amounts.bundles import Bundle, NodeOfKind, bundle_resource
from trimtab.planner.device_amounts.competition import (
    MOST_KINDS,
    PLENTY,
    Competition,
    Kind,
    KnownShares,
    NodeShares,
    SharesLeft,
)
from trimtab.planner.devices.model import AllocatedDevice, ClaimRequest, DeviceClaim
from trimtab.planner.model.values import DEVICE_RESOURCE

MOST_USES: Final = 400
"""Nodes with different devices in use for which the allocator is asked; further ones get no more of these claims."""


class ClaimUse(NamedTuple):
    """What pods of one spec claim. asks : all of them; counts : devices by ask, if each is given away whole and only
    their number counts, else None; bundle : the claims as one, () = they are not all the pod's own."""

    asks: tuple[Ask, ...]
    counts: Mapping[Ask, int] | None
    bundle: Bundle


def competitions(
    uses: Iterable[ClaimUse], group_of: Mapping[Ask, int], exact: Iterable[Ask], alone: Container[Bundle]
) -> list[Competition]:
    """Return what competes for the same devices without being alike. group_of : asks that compete with each other;
    exact : those that are counted exactly where only they compete; alone : what competes with nothing."""
    counted = frozenset(exact)
    made = []
    for numbers, members in _components(list(uses), group_of):
        asks = [ask for use in members for ask in use.counts or () if group_of[ask] in numbers]
        kinds = [Kind(ask, _single(ask)) for ask in dict.fromkeys(asks)]
        bundles = dict.fromkeys(use.bundle for use in members if use.counts is None and use.bundle)
        every = [*kinds, *(Kind(None, bundle) for bundle in bundles)]
        chosen = every if len(every) <= MOST_KINDS else kinds
        is_planned = any(kind.ask not in counted for kind in chosen) and members[0].bundle not in alone
        if is_planned and len(chosen) <= MOST_KINDS:
            known = sum(1 << at for at, kind in enumerate(chosen) if kind.ask in counted)
            made.append(Competition(tuple(chosen), known))
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


@dataclass
class CompetingClaims:
    """The columns of competitions. shares : of each by profile; names : of the columns."""

    known: Sequence[KnownShares]
    shares: Sequence[Sequence[NodeShares | None]]
    names: tuple[str, ...] = ()
    _columns: dict[str, tuple[int, int, tuple[int, ...]]] = field(default_factory=dict)
    """By name: number of the competition, kind or -1, shares by kind."""
    _place: dict[Ask | Bundle, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, one in enumerate(self.known):
            competition = one.competition
            for at, kind in enumerate(competition.kinds):
                self._place[kind.bundle if kind.ask is None else kind.ask] = number, at
                if not competition.counted >> at & 1:
                    self._columns[_name_of(kind)] = number, at, ()
            for shares in sorted({found.shares for found in self.shares[number] if found is not None}):
                self._columns[f"{DEVICE_RESOURCE}{_digest((competition.kinds, shares))}"] = number, -1, shares
        self.names = tuple(self._columns)

    def has(self, one: Ask | Bundle) -> bool:
        """Return whether an ask, or all claims of a pod, are planned with here."""
        return one in self._place

    def requests(self, amounts: Mapping[Ask, int] | Mapping[Bundle, int]) -> dict[str, int]:
        """Return what is requested for so many devices of asks, or claims of a pod; others count for nothing."""
        found: dict[str, int] = {}
        for one, amount in amounts.items():
            number, kind = self._place.get(one, (-1, -1))
            for name, (of, own, shares) in self._columns.items():
                if of == number:
                    each = int(own == kind) if own >= 0 else shares[kind]
                    if each:
                        found[name] = found.get(name, 0) + each * amount
        return found

    def full(self, profile: int) -> list[int]:
        """Return the amounts of a node of which nothing is in use, by column."""
        return self._row(profile, [None if of[profile] is None else _full(of[profile]) for of in self.shares])

    def left(self, profile: int, node: NodeOfKind, used: Sequence[AllocatedDevice], uses: "Uses") -> list[int]:
        """Return the amounts of a node, by column. used : of its own pools."""
        found = []
        for number, known in enumerate(self.known):
            shares = self.shares[number][profile]
            found.append(None if shares is None else uses.left(number, known, profile, node, used))
        return self._row(profile, found)

    def _row(self, profile: int, left: Sequence[SharesLeft | None]) -> list[int]:
        row = []
        for number, own, shares in self._columns.values():
            found, of = left[number], self.shares[number][profile]
            if found is None or of is None:
                row.append(PLENTY if own < 0 else 0)
            elif own < 0:
                row.append(found.sum if shares == of.shares else PLENTY)
            else:
                row.append(found.sum // of.shares[own] if found.open >> own & 1 and of.shares[own] else 0)
        return row


class Uses:
    """Bounds how many different uses are looked at by searches, in the order of the nodes."""

    def __init__(self) -> None:
        self._seen: dict[int, set[object]] = {}

    def left(
        self, number: int, known: KnownShares, profile: int, node: NodeOfKind, used: Sequence[AllocatedDevice]
    ) -> SharesLeft:
        """Return what is left on a node. number : of the competition."""
        if not known.competition.is_of_asks:
            seen = self._seen.setdefault(number, set())
            seen.add(known.key(profile, node, used))
            if len(seen) > MOST_USES:
                return SharesLeft(PLENTY, known.competition.counted)
        return known.left(profile, node, used)


def _full(shares: NodeShares | None) -> SharesLeft | None:
    return None if shares is None else shares.full


def _name_of(kind: Kind) -> str:
    if kind.ask is None:
        return bundle_resource(kind.bundle)
    return f"{DEVICE_RESOURCE}{kind.ask.device_class}-{_digest(kind.ask)}"


def competing_claims(
    found: Sequence[Competition],
    cache: MutableMapping[Competition, KnownShares],
    make: Callable[[Competition], KnownShares],
    new_nodes: Sequence[Callable[[], NodeOfKind]],
) -> CompetingClaims:
    """Return the columns of competitions. cache : of what is known of each; new_nodes : makes one of each profile."""
    known = [cache[one] if one in cache else cache.setdefault(one, make(one)) for one in found]
    shares = [[one.of(profile, new) for profile, new in enumerate(new_nodes)] for one in known]
    return CompetingClaims(known, shares)
