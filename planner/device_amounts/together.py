"""Pods that share claims without devices: which of them are planned together, and who leads.

The first pod that is scheduled gets the devices of a claim, and all others have to go where these can be reached: with
devices of a node, to that node. So one of them leads. It requests what all of them need, devices included, and the
others request nothing and go where it is: all of them find room on one node, or none does. Pods that are all on one
node keep none of the devices when all of them leave, and are moved in the same way.

Pods that wait and pods that have a place are not planned together, nor are pods of different priorities or schedulers,
pods with required affinity, and pods of DaemonSets. O(users of shared claims), microseconds each.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from trimtab.planner.model.values import FOLLOWS, LEADS, ExtendedDeviceRequest, PodClaim, PodRequirements
from trimtab.planner.snapshot.columns import FLAG_DAEMON, FLAG_GATED, FLAG_MIRROR, NO_NODE, Snapshot

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
    """Yield pods that share claims with each other, directly or through others, and these claims."""
    leader = {row: row for rows in users.values() for row in rows}

    def find(row: int) -> int:
        while leader[row] != row:
            row = leader[row]
        return row

    for rows in users.values():
        for row in rows[1:]:
            leader[find(row)] = find(rows[0])
    pods: dict[int, list[int]] = {}
    for row in sorted(leader):
        pods.setdefault(find(row), []).append(row)
    claims: dict[int, list[ClaimKey]] = {}
    for key in sorted(users):
        claims.setdefault(find(users[key][0]), []).append(key)
    for number, rows in pods.items():
        yield rows, claims[number]


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
