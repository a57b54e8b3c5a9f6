"""Claims that pods may share, as they concern each pod.

A claim with one user is as its own: when that pod is deleted, nobody uses the claim, and the next pod gets it with new
devices. Any other claim that is allocated keeps its devices, so that its users go where these can be reached and take
nothing more: those of one node stay there. A claim of several users without devices stays shared.
"""

from typing import NamedTuple

import numpy as np

from trimtab.planner.device_amounts.cluster_devices import named_claims
from trimtab.planner.model.values import LabelRequirement, NodeAffinityTerm, PodClaim, PodRequirements
from trimtab.planner.snapshot.columns import ALLOCATED, BEING_DELETED, BINDING_FAILED, Int32, Snapshot
from trimtab.v1.snapshot_pb2 import LabelOperator


class OwnSpecs(NamedTuple):
    """specs : those of the snapshot, then further ones; spec : int32[P] into them."""

    specs: tuple[PodRequirements, ...]
    spec: Int32


class _NamedClaims:
    """The claims that belong to no pod, by namespace and name."""

    def __init__(self, snapshot: Snapshot) -> None:
        devices = snapshot.devices
        self._claims, self._row = devices.claims, named_claims(devices)
        self._specs, self._selectors, self._strings = devices.claim_specs, devices.node_selectors, devices.strings

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
        if flags & BINDING_FAILED:
            return claim._replace(problem=f"the devices of ResourceClaim {claim.shared} could not be bound")
        first, last = np.searchsorted(claims.consumer_claim, [row, row + 1]).tolist()
        others = {claims.consumer.get(at) for at in range(first, last)} - set(users)
        if flags & ALLOCATED and (len(users) > 1 or others or not is_placed):
            return claim._replace(shared="", spec=None, nodes=self._nodes(row))
        return claim if len(users) > 1 else claim._replace(shared="", spec=self._specs[claims.spec[row]])

    def _nodes(self, row: int) -> tuple[NodeAffinityTerm, ...] | None:
        """Return which nodes reach the devices of a claim."""
        if name := self._strings[self._claims.node[row]]:
            return (NodeAffinityTerm((), (LabelRequirement("metadata.name", LabelOperator.IN, (name,)),)),)
        selector = int(self._claims.selector[row])
        return self._selectors[selector] if selector >= 0 else None


def with_own_claims(snapshot: Snapshot) -> OwnSpecs:
    """Return the specs of pods, with what shared claims are for them. O(P) if some spec shares a
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
            if not one.shared:
                claims.append(one)
            elif at < 0 and one.spec is None and not one.problem:
                claims.append(one._replace(problem=f"ResourceClaim {namespace}/{one.shared} does not exist"))
            else:
                claims.append(named.as_own(one, at, users[key], bool(pods.node[row] >= 0)))
        found = spec._replace(claims=tuple(claims))
        if found != spec:
            column[row] = number.setdefault(found, len(specs) + len(number))
    return OwnSpecs((*specs, *number), column)
