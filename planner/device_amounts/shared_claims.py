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
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import cached_property
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


class OwnSpecs(NamedTuple):
    """specs : those of the snapshot, then further ones; spec : int32[P] into them; leader_of : of pods that follow
    another one, its spec by theirs."""

    specs: tuple[PodRequirements, ...]
    spec: Int32
    leader_of: Mapping[PodRequirements, PodRequirements]


def with_own_claims(
    snapshot: Snapshot, *, is_together: bool = True, unshared_claims: Collection[str] = frozenset()
) -> OwnSpecs:
    """Return the specs of pods, with what shared claims are for them. O(P) if some spec shares a
    claim, and microseconds for each such pod. is_together : pods that share a claim without devices are planned
    together where they can be; unshared_claims : claims for which they need not be, as "namespace/name"."""
    pods, specs = snapshot.pods, list(snapshot.specs)
    sharing = [at for at, spec in enumerate(specs) if any(claim.shared for claim in spec.claims)]
    if not sharing:
        return OwnSpecs(snapshot.specs, pods.spec, {})
    rows = np.flatnonzero(np.isin(pods.spec, sharing) & ~pods.is_terminal()).tolist()
    shared = _SharedClaims(snapshot, rows, unshared_claims)
    sets = shared.pods_together() if is_together else []
    together = {key for pod_set in sets for key in pod_set.claims}
    spec_by_row = {row: shared.with_own_claims(row, together, is_together=is_together) for row in rows}
    leader_of: dict[PodRequirements, PodRequirements] = {}
    for pod_set in sets:
        spec_by_row |= shared.specs_together(spec_by_row, pod_set)
        leader_of |= {spec_by_row[row]: spec_by_row[pod_set.rows[0]] for row in pod_set.rows[1:]}
    number: dict[PodRequirements, int] = {}
    column = pods.spec.copy()
    for row, spec in spec_by_row.items():
        if spec != specs[pods.spec[row]]:
            column[row] = number.setdefault(spec, len(specs) + len(number))
    # What pods that have ended asked for competes with nobody.
    for at in set(sharing) - set(column[rows].tolist()):
        specs[at] = specs[at]._replace(claims=())
    return OwnSpecs((*specs, *number), column, leader_of)


class _PodsTogether(NamedTuple):
    """rows : of the pods, the first leads; claims : that they share."""

    rows: Sequence[int]
    claims: Sequence[ClaimKey]


class _SharedClaims:
    """The claims that some pods share, which are given by their rows."""

    def __init__(self, snapshot: Snapshot, rows: Sequence[int], unshared_claims: Collection[str]) -> None:
        self._snapshot, self._unshared = snapshot, unshared_claims
        self._claims, self._row = snapshot.devices.claims, named_claims(snapshot.devices)
        self._users: dict[ClaimKey, list[int]] = {}
        self._named: dict[ClaimKey, PodClaim] = {}
        for row in rows:
            for claim in self._spec(row).claims:
                key = self._namespace(row), claim.shared
                if claim.shared and row not in self._users.setdefault(key, []):
                    self._named.setdefault(key, claim)
                    self._users[key].append(row)

    @cached_property
    def _wanted(self) -> dict[ClaimKey, Hashable]:
        """What claims ask for that their users may get devices for together, as they have none or leave together."""
        spec_of = {}
        for key, users in self._users.items():
            nodes = {int(node) for node in self._snapshot.pods.node[users]}
            if len(users) > 1 and len(nodes) == 1 and not self._named[key].problem:
                spec = self._wanted_on(key, nodes.pop())
                if spec is not None:
                    spec_of[key] = spec
        return spec_of

    def _wanted_on(self, key: ClaimKey, node: int) -> Hashable | None:
        """Return what a claim asks for, None = its users may not get devices together. node : where all of them are."""
        row = self._row.get(key, -1)
        if row < 0:
            return self._named[key].spec if node == NO_NODE else None
        flags, strings, claims = int(self._claims.flags[row]), self._snapshot.devices.strings, self._claims
        if flags & ALLOCATED:
            is_there = node >= 0 and strings[claims.node[row]] == self._snapshot.nodes.name[node]
            is_free = is_there and not self._has_other_consumers(key, row)
        else:
            is_free = node == NO_NODE
        return self._spec_of(row) if is_free and not flags & (BEING_DELETED | BINDING_FAILED) else None

    def pods_together(self) -> list[_PodsTogether]:
        """Return the pods that are planned together: they share claims with each other, directly or through others."""
        keys = sorted(key for key in self._wanted if "/".join(key) not in self._unshared)
        links = ((row, self._users[key][0]) for key in keys for row in self._users[key][1:])
        sets = linked_sets(sorted({row for key in keys for row in self._users[key]}), links)
        set_of = {row: at for at, rows in enumerate(sets) for row in rows}
        claims: list[list[ClaimKey]] = [[] for _ in sets]
        for key in keys:
            claims[set_of[self._users[key][0]]].append(key)
        pod_sets = [_PodsTogether(self._members(rows), of) for rows, of in zip(sets, claims, strict=True)]
        return [pod_set for pod_set in pod_sets if pod_set.rows]

    def _members(self, rows: Sequence[int]) -> Sequence[int]:
        """Return those of pods that share claims which are planned together, the leader first, none if they cannot
        be."""
        pods = self._snapshot.pods
        left_out = {row for row in rows if pods.deletion_s[row] or pods.flags[row] & FLAG_GATED}
        is_placed = pods.node[rows[0]] != NO_NODE
        if len(set(pods.node[rows].tolist())) > 1 or (left_out and is_placed):
            return ()
        if any(pods.flags[row] & (FLAG_DAEMON | FLAG_MIRROR) for row in rows):
            return ()
        members = [row for row in rows if row not in left_out]
        specs = [self._spec(row) for row in members]
        alike = {
            (spec.priority, spec.scheduler_name, spec.scale_up_delay_s, spec.ignored_by_slack, spec.never_preempts)
            for spec in specs
        }
        if len(alike) != 1 or any(spec.pod_affinity for spec in specs):
            return ()
        return sorted(members, key=lambda row: (int(pods.created_s[row]), row))

    def specs_together(
        self, specs: Mapping[int, PodRequirements], pod_set: _PodsTogether
    ) -> dict[int, PodRequirements]:
        """Return the specs of pods that are planned together. specs : theirs, by row."""
        namespace = pod_set.claims[0][0]
        names = sorted(name for _, name in pod_set.claims)

        def mark(name: str, together: int) -> PodClaim:
            return PodClaim(name, f"{namespace}/{name}", self._wanted[namespace, name], "", None, together)

        amounts: Counter[str] = Counter()
        extended: list[ExtendedDeviceRequest] = []
        own: list[PodClaim] = []
        out = {}
        for row in pod_set.rows:
            spec = specs[row]
            amounts.update(dict(spec.requests))
            extended += spec.extended_device_requests
            rest = [claim for claim in spec.claims if claim.shared not in names]
            own += [claim for claim in rest if claim.nodes is None]
            marks = [mark(claim.shared, FOLLOWS) for claim in spec.claims if claim.shared in names]
            with_devices = [claim for claim in rest if claim.nodes is not None]
            out[row] = spec._replace(requests=(), claims=(*marks, *with_devices), extended_device_requests=())
        first = pod_set.rows[0]
        with_devices = [claim for claim in out[first].claims if not claim.together]
        out[first] = specs[first]._replace(
            requests=tuple(sorted(amounts.items())),
            claims=(*(mark(name, LEADS) for name in names), *own, *with_devices),
            extended_device_requests=tuple(extended),
        )
        return out

    def with_own_claims(self, row: int, together: Collection[ClaimKey], *, is_together: bool) -> PodRequirements:
        """Return the spec of a pod with what its claims are for it alone. kept : claims that stay as they are;
        is_together : those that need not be planned together keep what they ask for."""
        spec, claims = self._spec(row), []
        for claim in spec.claims:
            key = self._namespace(row), claim.shared
            if claim.shared and key not in together:
                if is_together and "/".join(key) in self._unshared and key in self._wanted:
                    claims.append(claim._replace(shared="/".join(key), spec=self._wanted[key]))
                else:
                    claims.append(self._as_own(claim, key, is_placed=bool(self._snapshot.pods.node[row] >= 0)))
            else:
                claims.append(claim)
        return spec._replace(claims=tuple(claims))

    def _as_own(self, claim: PodClaim, key: ClaimKey, *, is_placed: bool) -> PodClaim:
        """Return a claim as that of its only user if it is so."""
        row, is_shared = self._row.get(key, -1), len(self._users[key]) > 1
        if row < 0:
            if claim.spec is None and not claim.problem:
                return claim._replace(problem=f"ResourceClaim {'/'.join(key)} does not exist")
            return claim if is_shared or claim.spec is None else claim._replace(shared="")
        flags = int(self._claims.flags[row])
        if flags & BEING_DELETED:
            return claim._replace(problem=f"ResourceClaim {claim.shared} is being deleted")
        if flags & BINDING_FAILED:
            return claim._replace(problem=f"the devices of ResourceClaim {claim.shared} could not be bound")
        if flags & ALLOCATED and (is_shared or not is_placed or self._has_other_consumers(key, row)):
            return claim._replace(shared="", spec=None, nodes=self._nodes(row))
        return claim if is_shared else claim._replace(shared="", spec=self._spec_of(row))

    def _has_other_consumers(self, key: ClaimKey, row: int) -> bool:
        """Return whether a claim is reserved for others than its users."""
        first, last = np.searchsorted(self._claims.consumer_claim, [row, row + 1]).tolist()
        name = self._snapshot.pods.name
        return not {self._claims.consumer.get(at) for at in range(first, last)} <= {*map(name.get, self._users[key])}

    def _nodes(self, row: int) -> tuple[NodeAffinityTerm, ...] | None:
        """Return which nodes reach the devices of a claim."""
        devices = self._snapshot.devices
        if name := devices.strings[self._claims.node[row]]:
            return (NodeAffinityTerm((), (LabelRequirement("metadata.name", LabelOperator.IN, (name,)),)),)
        selector = int(self._claims.selector[row])
        return devices.node_selectors[selector] if selector >= 0 else None

    def _spec_of(self, row: int) -> Hashable:
        claim_spec: Hashable = self._snapshot.devices.claim_specs[self._claims.spec[row]]
        return claim_spec

    def _spec(self, row: int) -> PodRequirements:
        spec: PodRequirements = self._snapshot.specs[self._snapshot.pods.spec[row]]
        return spec

    def _namespace(self, row: int) -> str:
        namespace: str = self._snapshot.strings[self._snapshot.pods.namespace[row]]
        return namespace
