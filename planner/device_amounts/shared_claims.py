"""Claims that pods may share, of which a pod is the only user: they are as its own.

When that pod is deleted, nobody uses the claim, and the next pod gets it with new devices. A claim that is allocated
and used by no pod here, or by something else, stays shared.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.model.values import PodClaim, PodRequirements
from trimtab.planner.snapshot.columns import ALLOCATED, BEING_DELETED, Int32, Snapshot


class OwnSpecs(NamedTuple):
    """specs : those of the snapshot, then further ones; spec : int32[P] into them."""

    specs: tuple[PodRequirements, ...]
    spec: Int32


class _NamedClaims:
    """The claims that belong to no pod, by namespace and name."""

    def __init__(self, snapshot: Snapshot) -> None:
        devices = snapshot.devices
        claims = self._claims = devices.claims
        named = np.flatnonzero(np.diff(claims.pod.offsets) == 0)
        self._specs = devices.claim_specs
        self._row = {(devices.strings[claims.namespace[row]], claims.name.get(row)): row for row in named.tolist()}

    def find(self, key: tuple[str, str]) -> int:
        """Return the row of a claim, -1 = there is none."""
        return self._row.get(key, -1)

    def as_own(self, claim: PodClaim, row: int, users: list[str], is_placed: bool) -> PodClaim:
        """Return a claim as that of its only user if it is so. row : its own, -1 = a controller will make it."""
        if row < 0:
            return claim if len(users) > 1 or claim.spec is None else claim._replace(shared="")
        claims = self._claims
        flags = int(claims.flags[row])
        if flags & BEING_DELETED:
            return claim._replace(problem=f"ResourceClaim {claim.shared} is being deleted")
        first, last = np.searchsorted(claims.consumer_claim, [row, row + 1]).tolist()
        others = {claims.consumer.get(at) for at in range(first, last)} - set(users)
        if len(users) > 1 or others or (flags & ALLOCATED and not is_placed):
            return claim
        return PodClaim(claim.name, "", self._specs[claims.spec[row]], claim.problem)


def with_own_claims(snapshot: Snapshot) -> OwnSpecs:
    """Return the specs of pods, with their own claims in place of those that only they use. O(P) if some spec shares a
    claim, and microseconds for each such pod."""
    pods, specs = snapshot.pods, list(snapshot.specs)
    sharing = [at for at, spec in enumerate(specs) if any(one.shared for one in spec.claims)]
    if not sharing:
        return OwnSpecs(snapshot.specs, pods.spec)
    rows = np.flatnonzero(np.isin(pods.spec, sharing) & ~pods.is_terminal()).tolist()
    users: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        namespace = snapshot.strings[pods.namespace[row]]
        for one in specs[pods.spec[row]].claims:
            if one.shared:
                users.setdefault((namespace, one.shared), []).append(pods.name.get(row))
    named = _NamedClaims(snapshot)
    number: dict[PodRequirements, int] = {}
    column = pods.spec.copy()
    for row in rows:
        spec, namespace = specs[pods.spec[row]], snapshot.strings[pods.namespace[row]]
        claims = []
        for one in spec.claims:
            key = namespace, one.shared
            at = named.find(key) if one.shared else -1
            if one.shared and at < 0 and one.spec is None and not one.problem:
                one = one._replace(problem=f"ResourceClaim {namespace}/{one.shared} does not exist")
            claims.append(named.as_own(one, at, users[key], bool(pods.node[row] >= 0)) if one.shared else one)
        found = spec._replace(claims=tuple(claims))
        if found != spec:
            column[row] = number.setdefault(found, len(specs) + len(number))
    return OwnSpecs((*specs, *number), column)
