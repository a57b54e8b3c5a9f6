"""Claims that pods may share, as they concern each pod.

A claim with one user is as its own: when that pod is deleted, nobody uses the claim, and the next pod gets it with new
devices. Any other claim that is allocated keeps its devices, so that its users go where these can be reached and take
nothing more. Where its users can be planned together, because none has a place or all are on one node, a claim gets
devices once for all of them (`together`), unless these are ones that several nodes reach: then its users need not be
on one node (`reached_devices`). Any other claim of several users without devices stays shared.

Of pods together, one leads: it requests what all of them need, devices included, and the others request nothing and go
where it is. So all of them find room on one node, or none does, as all others have to go where the devices are that the
first pod gets. Pods that are all on one node keep none of the devices when all of them leave, and are moved in the same
way. Pods that wait and pods that have a place are not planned together, nor are pods of different priorities or
schedulers, pods with required affinity, and pods of DaemonSets. O(users of shared claims), microseconds each.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import named_claims
from trimtab.planner.device_amounts.groups import linked_sets
from trimtab.planner.model.values import (
    FOLLOWS,
    LEADS,
    ExtendedDeviceRequest,
    LabelRequirement,
    NodeAffinityTerm,
    PodClaim,
    PodRequirements,
)
from trimtab.planner.snapshot.columns import (
    ALLOCATED,
    BEING_DELETED,
    BINDING_FAILED,
    FLAG_DAEMON,
    FLAG_GATED,
    FLAG_MIRROR,
    NO_NODE,
    Int32,
    Snapshot,
)
from trimtab.v1.snapshot_pb2 import LabelOperator

ClaimKey = tuple[str, str]
"""Namespace and name of a claim that pods share."""


class ClaimToShare(NamedTuple):
    """A claim that its users may get devices for together. spec : what it asks for, a `DeviceClaim`; node : where its
    users are, and its devices, NO_NODE = it has none."""

    spec: Hashable
    node: int


class PodsTogether(NamedTuple):
    """leader : row of the pod that leads; others : rows of those that follow; claims : that they share."""

    leader: int
    others: tuple[int, ...]
    claims: tuple[ClaimKey, ...]


def pods_together(
    snapshot: Snapshot, users: Mapping[ClaimKey, Sequence[int]], found: Mapping[ClaimKey, ClaimToShare]
) -> list[PodsTogether]:
    """Return the pods that are planned together. users : rows of the pods of each claim, ended ones left out; found :
    the claims that may be shared."""
    linked = _linked({key: users[key] for key in found})
    sets = [_together(snapshot, rows, claims, found) for rows, claims in linked]
    return [one for one in sets if one is not None]


def _linked(users: Mapping[ClaimKey, Sequence[int]]) -> Iterable[tuple[list[int], list[ClaimKey]]]:
    """Return pods that share claims with each other, directly or through others, and these claims."""
    links = ((row, rows[0]) for rows in users.values() for row in rows[1:])
    sets = linked_sets(sorted({row for rows in users.values() for row in rows}), links)
    set_of = {row: at for at, rows in enumerate(sets) for row in rows}
    claims: list[list[ClaimKey]] = [[] for _ in sets]
    for key in sorted(users):
        claims[set_of[users[key][0]]].append(key)
    return zip(sets, claims, strict=True)


def _together(
    snapshot: Snapshot, rows: Sequence[int], claims: Sequence[ClaimKey], found: Mapping[ClaimKey, ClaimToShare]
) -> PodsTogether | None:
    """Return some pods as planned together, None if they cannot be."""
    pods = snapshot.pods
    node = found[claims[0]].node
    if any(pods.node[row] != node for row in rows) or any(found[key].node != node for key in claims):
        return None
    if any(pods.flags[row] & (FLAG_DAEMON | FLAG_MIRROR) for row in rows):
        return None
    left_out = [row for row in rows if pods.deletion_s[row] or pods.flags[row] & FLAG_GATED]
    if left_out and node != NO_NODE:
        return None
    members = [row for row in rows if row not in left_out]
    alike = {_what_has_to_be_alike(snapshot.specs[pods.spec[row]]) for row in members}
    if len(alike) != 1 or any(snapshot.specs[pods.spec[row]].pod_affinity for row in members):
        return None
    first, *others = sorted(members, key=lambda row: (int(pods.created_s[row]), row))
    return PodsTogether(first, tuple(others), tuple(claims))


def _what_has_to_be_alike(spec: PodRequirements) -> tuple[object, ...]:
    return spec.priority, spec.scheduler_name, spec.scale_up_delay_s, spec.ignored_by_slack, spec.never_preempts


def specs_together(
    specs: Mapping[int, PodRequirements], one: PodsTogether, found: Mapping[ClaimKey, ClaimToShare]
) -> dict[int, PodRequirements]:
    """Return the specs of pods that are planned together. specs : theirs, by row."""
    namespace = one.claims[0][0]
    names = {name for _, name in one.claims}

    def mark(name: str, together: int) -> PodClaim:
        return PodClaim(name, f"{namespace}/{name}", found[namespace, name].spec, "", None, together)

    amounts: Counter[str] = Counter()
    extended: list[ExtendedDeviceRequest] = []
    own: list[PodClaim] = []
    out = {}
    for row in (one.leader, *one.others):
        spec = specs[row]
        amounts.update(dict(spec.requests))
        extended += spec.extended_device_requests
        rest = [claim for claim in spec.claims if claim.shared not in names]
        own += [claim for claim in rest if claim.nodes is None]
        marks = [mark(claim.shared, FOLLOWS) for claim in spec.claims if claim.shared in names]
        kept = [claim for claim in rest if claim.nodes is not None]
        out[row] = spec._replace(requests=(), claims=(*marks, *kept), extended_device_requests=())
    kept = [claim for claim in out[one.leader].claims if not claim.together]
    out[one.leader] = specs[one.leader]._replace(
        requests=tuple(sorted(amounts.items())),
        claims=(*(mark(name, LEADS) for name in sorted(names)), *own, *kept),
        extended_device_requests=tuple(extended),
    )
    return out


class OwnSpecs(NamedTuple):
    """specs : those of the snapshot, then further ones; spec : int32[P] into them; leader_of : of pods that follow
    another one, its spec by theirs."""

    specs: tuple[PodRequirements, ...]
    spec: Int32
    leader_of: Mapping[PodRequirements, PodRequirements]


class _NamedClaims:
    """The claims that belong to no pod, by namespace and name."""

    def __init__(self, snapshot: Snapshot) -> None:
        devices = snapshot.devices
        self._claims, self._row = devices.claims, named_claims(devices)
        self._specs, self._selectors, self._strings = devices.claim_specs, devices.node_selectors, devices.strings

    def find(self, key: tuple[str, str]) -> int:
        """Return the row of a claim, -1 = there is none."""
        return self._row.get(key, -1)

    def to_share(
        self, claim: PodClaim, key: ClaimKey, users: Sequence[str], at: Collection[int], nodes: Sequence[str]
    ) -> ClaimToShare | None:
        """Return a claim as one that its users may get devices for together, None = they may not. at : nodes of the
        users; nodes : names of all nodes."""
        if len(users) < 2 or len(at) != 1 or claim.problem:
            return None
        (node,), row = at, self.find(key)
        if row < 0:
            return None if claim.spec is None or node != NO_NODE else ClaimToShare(claim.spec, NO_NODE)
        flags, spec = int(self._claims.flags[row]), self._specs[self._claims.spec[row]]
        if flags & (BEING_DELETED | BINDING_FAILED):
            return None
        if not flags & ALLOCATED:
            return ClaimToShare(spec, NO_NODE) if node == NO_NODE else None
        is_there = node >= 0 and self._strings[self._claims.node[row]] == nodes[node]
        return ClaimToShare(spec, node) if is_there and not self._consumers(row) - set(users) else None

    def _consumers(self, row: int) -> set[str]:
        first, last = np.searchsorted(self._claims.consumer_claim, [row, row + 1]).tolist()
        return {self._claims.consumer.get(at) for at in range(first, last)}

    def as_own(self, claim: PodClaim, row: int, users: list[str], is_placed: bool) -> PodClaim:
        """Return a claim as that of its only user if it is so. row : its own, -1 = a controller will make it."""
        if row < 0:
            return claim if len(users) > 1 or claim.spec is None else claim._replace(shared="")
        claims = self._claims
        flags = int(claims.flags[row])
        if flags & BEING_DELETED:
            return claim._replace(problem=f"ResourceClaim {claim.shared} is being deleted")
        if flags & BINDING_FAILED:
            return claim._replace(problem=f"the devices of ResourceClaim {claim.shared} could not be bound")
        others = self._consumers(row) - set(users)
        if flags & ALLOCATED and (len(users) > 1 or others or not is_placed):
            return claim._replace(shared="", spec=None, nodes=self._nodes(row))
        return claim if len(users) > 1 else claim._replace(shared="", spec=self._specs[claims.spec[row]])

    def _nodes(self, row: int) -> tuple[NodeAffinityTerm, ...] | None:
        """Return which nodes reach the devices of a claim."""
        if name := self._strings[self._claims.node[row]]:
            return (NodeAffinityTerm((), (LabelRequirement("metadata.name", LabelOperator.IN, (name,)),)),)
        selector = int(self._claims.selector[row])
        return self._selectors[selector] if selector >= 0 else None


def with_own_claims(
    snapshot: Snapshot, *, is_together: bool = True, unshared_claims: Collection[str] = frozenset()
) -> OwnSpecs:
    """Return the specs of pods, with what shared claims are for them. O(P) if some spec shares a
    claim, and microseconds for each such pod. is_together : pods that share a claim without devices are planned
    together where they can be; unshared_claims : claims for which they need not be, as "namespace/name"."""
    pods, specs = snapshot.pods, list(snapshot.specs)
    sharing = [at for at, spec in enumerate(specs) if any(one.shared for one in spec.claims)]
    if not sharing:
        return OwnSpecs(snapshot.specs, pods.spec, {})
    rows = np.flatnonzero(np.isin(pods.spec, sharing) & ~pods.is_terminal()).tolist()
    found = _SharingPods(snapshot, rows, unshared_claims).specs(is_together=is_together)
    number: dict[PodRequirements, int] = {}
    column = pods.spec.copy()
    for row, spec in found.of.items():
        if spec != specs[pods.spec[row]]:
            column[row] = number.setdefault(spec, len(specs) + len(number))
    # What pods that have ended asked for competes with nobody.
    for at in set(sharing) - set(column[rows].tolist()):
        specs[at] = specs[at]._replace(claims=())
    return OwnSpecs((*specs, *number), column, found.leader_of)


class _SpecsOfPods(NamedTuple):
    """of : by row of the pod; leader_of : as in `OwnSpecs`."""

    of: dict[int, PodRequirements]
    leader_of: dict[PodRequirements, PodRequirements]


class _SharingPods:
    """The pods with specs that share claims, by their rows."""

    def __init__(self, snapshot: Snapshot, rows: Sequence[int], unshared_claims: Collection[str]) -> None:
        self._snapshot, self._rows, self._named, self._unshared = (
            snapshot,
            rows,
            _NamedClaims(snapshot),
            unshared_claims,
        )
        self._users: dict[ClaimKey, list[int]] = {}
        self._reached: dict[ClaimKey, Hashable] = {}
        self._claim: dict[ClaimKey, PodClaim] = {}
        for row in rows:
            for one in self._spec(row).claims:
                if one.shared:
                    key = self._namespace(row), one.shared
                    self._claim.setdefault(key, one)
                    if row not in self._users.setdefault(key, []):
                        self._users[key].append(row)
        name = snapshot.pods.name
        self._names = {key: [name.get(row) for row in rows] for key, rows in self._users.items()}

    def specs(self, *, is_together: bool) -> _SpecsOfPods:
        """Return their specs."""
        to_share = self._to_share() if is_together else {}
        found = {key: one for key, one in to_share.items() if "/".join(key) not in self._unshared}
        self._reached = {key: to_share[key].spec for key in to_share if key not in found}
        sets = pods_together(self._snapshot, self._users, found)
        kept = {key for one in sets for key in one.claims}
        out = {row: self._with_own_claims(row, kept) for row in self._rows}
        leader_of: dict[PodRequirements, PodRequirements] = {}
        for one in sets:
            out |= specs_together(out, one, found)
            leader_of |= {out[row]: out[one.leader] for row in one.others}
        return _SpecsOfPods(out, leader_of)

    def _to_share(self) -> dict[ClaimKey, ClaimToShare]:
        nodes, found = self._snapshot.pods.node, {}
        for key, rows in self._users.items():
            at = {int(node) for node in nodes[rows]}
            one = self._named.to_share(self._claim[key], key, self._names[key], at, self._snapshot.nodes.name)
            if one is not None:
                found[key] = one
        return found

    def _with_own_claims(self, row: int, kept: Collection[ClaimKey]) -> PodRequirements:
        """Return the spec of a pod with what its claims are for it alone, but for some. kept : which stay as they
        are."""
        spec, claims = self._spec(row), []
        for one in spec.claims:
            key = self._namespace(row), one.shared
            at = self._named.find(key) if one.shared else -1
            if not one.shared or key in kept:
                claims.append(one)
            elif key in self._reached:
                claims.append(one._replace(shared="/".join(key), spec=self._reached[key]))
            elif at < 0 and one.spec is None and not one.problem:
                claims.append(one._replace(problem=f"ResourceClaim {'/'.join(key)} does not exist"))
            else:
                is_placed = bool(self._snapshot.pods.node[row] >= 0)
                claims.append(self._named.as_own(one, at, self._names[key], is_placed))
        return spec._replace(claims=tuple(claims))

    def _spec(self, row: int) -> PodRequirements:
        found: PodRequirements = self._snapshot.specs[self._snapshot.pods.spec[row]]
        return found

    def _namespace(self, row: int) -> str:
        found: str = self._snapshot.strings[self._snapshot.pods.namespace[row]]
        return found
