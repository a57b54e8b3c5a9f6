"""Rankings of the previous snapshot: groups for which nothing has changed are not ranked again. Decides for which
groups an earlier ranking is still valid: strategies must declare what their ranks depend on besides a pod's name, age,
spec and node (`Strategy.depends_on`); node labels, taints, specs and prices must be the same; and the pods must be the
same with the same values. Answers never depend on this cache: ranking again would give the same. Cost: O(M),
plus a comparison of names if pods have come or gone.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trimtab.planner.pod_costs.kernels.groups import Compared, find_differing
from trimtab.planner.pod_costs.members import Members, OwnerTexts, owner_texts
from trimtab.planner.pod_costs.settings import PodCostTarget
from trimtab.planner.pod_costs.strategies import DATA_OF_PODS, depends_on
from trimtab.planner.pod_costs.strategies.nodes import prices_of
from trimtab.planner.pod_costs.strategy import Input, RankingContext
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.caches import SuccessorKey
from trimtab.planner.snapshot.columns import Bool, Int64, Text
from trimtab.planner.snapshot.references import take_or


class EarlierRankings(NamedTuple):
    """Groups by owner. facts : on which all of them depend; names : of all pods; texts : of all owners; owners :
    int64[G]; pods : the compared data of their pods; complete : bool[G], which are ranked; in_gangs : bool[G], which
    have pods that name a pod group; waits : by owner, the owner that is scaled down first; data : each encoded
    group, with costs or the reason for having none."""

    facts: tuple[object, ...]
    names: Text
    texts: OwnerTexts
    owners: Int64
    pods: Compared
    complete: Bool
    in_gangs: Bool
    waits: dict[int, int]
    data: list[bytes]


@dataclass(frozen=True)
class RankingsKey(SuccessorKey[EarlierRankings]):
    """The rankings of a target's groups. number : of the target in the settings."""

    number: int
    target: PodCostTarget


def facts_of(this: Round, target: PodCostTarget) -> tuple[object, ...]:
    """Return the facts on which all groups depend; equal parts of a snapshot and its base are the same objects."""
    snapshot, nodes = this.snapshot, this.snapshot.nodes
    is_priced = any(Input.PRICES in depends_on(term) for term in target.terms)
    of_nodes = (nodes.name, nodes.label_set, nodes.taint_set, nodes.taint_sets, prices_of(this) if is_priced else None)
    return (*of_nodes, snapshot.specs, snapshot.label_sets, snapshot.strings)


def pods_of(context: RankingContext, target: PodCostTarget) -> Compared:
    """Return the data of members that the strategies of a target read."""
    pods, members = context.snapshot.pods, context.members
    columns = [
        column
        for term in target.terms
        for one in sorted(depends_on(term) & DATA_OF_PODS.keys(), key=lambda one: one.value)
        for column in DATA_OF_PODS[one](context, term)
    ]
    # As bits, so that missing values (NaN) are equal.
    values = [column.view(np.int64) for column in columns]
    return Compared(
        bounds=members.bounds,
        pods=members.pods,
        namespace=pods.namespace,
        node=pods.node,
        spec=pods.spec,
        created_s=pods.created_s,
        names=pods.name.data,
        name_offsets=pods.name.offsets,
        values=np.stack(values) if values else np.zeros((0, len(members.pods)), np.int64),
    )


def places(this: Round, members: Members, earlier: EarlierRankings | None) -> Int64:
    """Return the position of each group's owner among the cached groups, -1 = none. int64[G]."""
    if earlier is None:
        return np.full(len(members.owners), -1, np.int64)
    texts = owner_texts(this.snapshot, this.work.cache)
    if earlier.texts is texts:
        at = np.minimum(np.searchsorted(earlier.owners, members.owners), len(earlier.owners) - 1)
        return np.where(earlier.owners[at] == members.owners, at, -1)
    known = {
        (earlier.texts.uids[one], earlier.texts.names[one]): place for place, one in enumerate(earlier.owners.tolist())
    }
    return np.array(
        [known.get((texts.uids[owner], texts.names[owner]), -1) for owner in members.owners.tolist()], np.int64
    )


def touched(
    this: Round, facts: tuple[object, ...], pods: Compared, earlier: EarlierRankings | None, place: Int64
) -> Bool:
    """Return which groups have to be ranked again. place : int64[G] as of `places`. bool[G]."""
    differs = np.ones(len(place), np.bool_)
    if earlier is not None and all(map(_are_same, earlier.facts, facts)):
        find_differing(pods, earlier.pods, place, int(earlier.names is this.snapshot.pods.name), differs)
    return differs


def _are_same(one: object, other: object) -> bool:
    """Return whether two facts are one object, or arrays with equal bits, as for recomputed prices."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one is other or np.array_equal(one.view(np.uint8), other.view(np.uint8))
    return one is other


def turned(
    members: Members, texts: OwnerTexts, waits: dict[int, int], earlier: EarlierRankings | None, place: Int64
) -> Bool:
    """Return which groups wait for a different group than before, or for one whose name has changed. bool[G].

    place : int64[G] as of `places`.
    """
    if earlier is None or (not waits and not earlier.waits):
        return np.zeros(len(place), np.bool_)

    def text(of: OwnerTexts, owner: int | None) -> str:
        return "" if owner is None else of.names[owner]

    before = [earlier.waits.get(owner) for owner in take_or(earlier.owners, place, -1).tolist()]
    now = [waits.get(owner) for owner in members.owners.tolist()]
    return np.array(
        [text(texts, one) != text(earlier.texts, other) for one, other in zip(now, before, strict=True)], np.bool_
    )
