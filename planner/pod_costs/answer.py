"""The decision as messages: groups by owner. Each is encoded by itself, so that later snapshots use unchanged ones."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from trimtab.planner.pod_costs.members import LeftAlone, owner_name, owner_texts
from trimtab.planner.pod_costs.ranking import Ranked
from trimtab.planner.pod_costs.settings import PodCostTarget
from trimtab.planner.pod_costs.strategies import BY_CODE
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Int64
from trimtab.v1 import plan_pb2 as pb


class Written(NamedTuple):
    """Encoded groups. owners : int64[G], numbers of the owners; data : the bytes of a `PodCostsDecision` with one group
    each; ranked_count : how many of the groups are ranked.
    """

    owners: Int64
    data: list[bytes]
    ranked_count: int


def write_ranked(
    this: Round, number: int, target: PodCostTarget, ranked: Ranked, waits_for: Mapping[int, int]
) -> Written:
    """Return the complete groups of target `number`. waits_for : by owner, the owner that is scaled down first."""
    members, bounds = ranked.members, ranked.members.bounds.tolist()
    every = owner_texts(this.snapshot, this.work.cache).names
    pods, costs = this.snapshot.pod_keys(members.pods), ranked.costs.tolist()
    columns = [
        (BY_CODE[term.strategy].code, *(column.astype("<f8").tobytes() for column in share))
        for term, share in zip(target.terms, ranked.shares, strict=True)
    ]
    data = []
    for owner, first, last in zip(members.owners.tolist(), bounds, bounds[1:], strict=False):
        decision = pb.PodCostsDecision()
        group = decision.groups.add(
            owner=every[owner],
            pods=pods[first:last],
            costs=costs[first:last],
            complete=True,
            ranked_after_each_removal=ranked.after_each_removal,
            waits_for=every[waits_for[owner]] if owner in waits_for else "",
            target=number,
        )
        rows = slice(8 * first, 8 * last)
        for code, ranks, own_ranks in columns:
            group.shares.add(strategy=code, ranks=ranks[rows], own_ranks=own_ranks[rows])
        data.append(decision.SerializeToString())
    return Written(members.owners, data, len(data))


def write_left_alone(this: Round, owner: int, target: int, why: LeftAlone) -> Written:
    """Return a group without costs."""
    entry = pb.PodCostsDecision()
    entry.groups.add(owner=owner_name(this.snapshot, owner), reason=why.reason, detail=why.detail, target=target)
    return Written(np.array([owner], np.int64), [entry.SerializeToString()], 0)


def add_groups(decision: pb.PodCostsDecision, this: Round, written: list[Written]) -> None:
    """Add all groups in order of their owners' texts."""
    if not written:
        return
    owners = np.concatenate([one.owners for one in written])
    data = [part for one in written for part in one.data]
    order = np.argsort(owner_texts(this.snapshot, this.work.cache).place[owners])
    decision.MergeFromString(b"".join([data[at] for at in order.tolist()]))
