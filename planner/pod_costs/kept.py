"""Groups as they were ranked for the snapshot before: those that nothing has changed for are not ranked again.

Decides for which groups an earlier ranking still holds: strategies that look at nothing but a pod's name, age, spec,
node and number; the same nodes, specs, labels and prices; the same pods with the same values. An answer never depends
on it: what is kept is what ranking again would give. Cost: O(M), and a comparison of the names where pods have come or
gone.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb

from planner.model.derive import FOR_NEXT
from planner.model.settings.pod_costs import PodCostTarget
from planner.model.values import Owner
from planner.pod_costs.members import Members, owner_texts
from planner.pod_costs.strategies.annotated import annotated
from planner.round.round import Round
from planner.snapshot.columns import Bool, Int32, Int64, Snapshot, Text

_S: Final = pb.PodCostStrategy
KEEPABLE: Final = frozenset(
    {
        _S.BALANCE_DOMAINS,
        _S.UNTOLERATED_TAINTS,
        _S.PREFER_NO_SCHEDULE_NODES,
        _S.YOUNGEST,
        _S.OLDEST,
        _S.NODE_COST,
        _S.IDLE,
        _S.ACCUMULATED_WORK,
    }
)


class Pods(NamedTuple):
    """What strategies read of the pods of all groups. first : int64[G] row of each group's first pod, -1 = its rows do
    not follow each other; node, spec : int32[M]; created_s : int64[M]; numbers : for each annotation that a strategy
    reads, the bits of the numbers, int64[M]."""

    first: Int64
    node: Int32
    spec: Int32
    created_s: Int64
    numbers: tuple[Int64, ...]


class Kept(NamedTuple):
    """Groups by owner. facts : what all of them rest on; names : of all pods; table : all owners; owners : int64[G],
    bounds : int64[G+1], as in `Members`; data : the bytes of each as it goes out, with costs or with the reason why it
    has none."""

    facts: tuple[object, ...]
    names: Text
    table: Sequence[Owner]
    owners: Int64
    bounds: Int64
    pods: Pods
    data: list[bytes]


def name_of(number: int, target: PodCostTarget) -> str:
    """Return the name under which the groups of a target are kept."""
    content = repr((target, sorted(target.namespaces), sorted(target.owner_kinds)))
    return f"{FOR_NEXT}pod costs of target {number} {blake2b(content.encode(), digest_size=16).hexdigest()}"


def is_keepable(target: PodCostTarget) -> bool:
    """Say whether the ranks of a target rest on nothing but what is compared here."""
    return all(term.strategy in KEEPABLE for term in target.terms)


def facts_of(snapshot: Snapshot) -> tuple[object, ...]:
    """Return what all groups rest on; equal parts of a snapshot and its base are the same objects."""
    return (snapshot.nodes, snapshot.specs, snapshot.groups, snapshot.label_sets, snapshot.strings)


def pods_of(snapshot: Snapshot, target: PodCostTarget, members: Members) -> Pods:
    """Return what the strategies of a target read of the members."""
    pods, rows = snapshot.pods, members.pods
    first, last = rows[members.bounds[:-1]], rows[members.bounds[1:] - 1]
    first = np.where(last - first + 1 == np.diff(members.bounds), first, -1)
    # As bits, in which one that is missing equals another.
    numbers = (annotated(snapshot, members, term.annotation) for term in target.terms if term.annotation)
    bits = tuple(one.view(np.int64) for one in numbers)
    return Pods(first, pods.node[rows], pods.spec[rows], pods.created_s[rows], bits)


def places(this: Round, members: Members, kept: Kept | None) -> Int64:
    """Return the place of each group's owner among those of the groups that are kept, -1 = none. int64[G]."""
    if kept is None:
        return np.full(len(members.owners), -1, np.int64)
    if kept.table is this.snapshot.owners:
        at = np.minimum(np.searchsorted(kept.owners, members.owners), len(kept.owners) - 1)
        return np.where(kept.owners[at] == members.owners, at, -1)
    known = {kept.table[owner].uid: place for place, owner in enumerate(kept.owners.tolist())}
    uids = owner_texts(this.snapshot, this.derive).uids
    return np.array([known.get(uids[owner], -1) for owner in members.owners.tolist()], np.int64)


def touched(this: Round, members: Members, pods: Pods, kept: Kept | None, place: Int64) -> Bool:
    """Return which groups have to be ranked again. place : as of `places`. bool[G]."""
    count, snapshot = len(members.owners), this.snapshot
    if kept is None or any(one is not other for one, other in zip(kept.facts, facts_of(snapshot), strict=True)):
        return np.ones(count, np.bool_)
    sizes, old_sizes = np.diff(members.bounds), np.append(np.diff(kept.bounds), -1)
    old_first = np.append(kept.pods.first, -1)[place]
    differs: Bool = (old_sizes[place] != sizes) | (pods.first < 0) | (old_first < 0)
    same = np.flatnonzero(~differs)
    if not len(same):
        return differs
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes[same])))
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes[same])
    new = within + np.repeat(members.bounds[same], sizes[same])
    old = within + np.repeat(kept.bounds[place[same]], sizes[same])
    changed = np.zeros(len(within), np.bool_)
    for one, other in zip(_columns(pods), _columns(kept.pods), strict=True):
        changed |= one[new] != other[old]
    differs[same] = np.logical_or.reduceat(changed, starts[:-1])
    differs[same] |= _renamed(snapshot.pods.name, kept.names, (pods.first[same], old_first[same]), sizes[same])
    return differs


def _columns(pods: Pods) -> tuple[Int32 | Int64, ...]:
    return (pods.node, pods.spec, pods.created_s, *pods.numbers)


def _renamed(names: Text, before: Text, first: tuple[Int64, Int64], sizes: Int64) -> Bool:
    """Return which groups have pods of other names. first : first row of each now and before; their rows follow it."""
    if names is before and np.array_equal(*first):
        return np.zeros(len(sizes), np.bool_)
    new, old = names.data.tobytes(), before.data.tobytes()
    bounds = zip(
        names.offsets[first[0]].tolist(),
        names.offsets[first[0] + sizes].tolist(),
        before.offsets[first[1]].tolist(),
        before.offsets[first[1] + sizes].tolist(),
        strict=True,
    )
    other = np.array([new[a:b] != old[c:d] for a, b, c, d in bounds], np.bool_)
    # Equal bytes, cut in other places.
    rows = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    lengths, old_lengths = np.diff(names.offsets), np.diff(before.offsets)
    cut = lengths[rows + np.repeat(first[0], sizes)] != old_lengths[rows + np.repeat(first[1], sizes)]
    return other | np.logical_or.reduceat(cut, np.cumsum(sizes) - sizes)
