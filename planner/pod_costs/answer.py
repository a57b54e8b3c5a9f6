"""The decision as a message: groups by owner. A kernel writes complete groups as protobuf bytes, which
are then merged, because building the message entry by entry is far slower.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.pod_costs.kernels.wire import RankedGroups, write_groups
from trimtab.planner.pod_costs.members import LeftAlone, owner_name, owner_texts
from trimtab.planner.pod_costs.ranking import Ranked
from trimtab.planner.pod_costs.settings import PodCostTarget
from trimtab.planner.pod_costs.strategies import BY_CODE
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.columns import Int64, UInt8
from trimtab.planner.snapshot.texts import joined, texts_of
from trimtab.v1 import plan_pb2 as pb

PART_BYTES: Final = 1 << 18


class Written(NamedTuple):
    """Encoded groups. owners : int64[G], numbers of the owners; data : uint8, the bytes of each; ranked_count : how
    many of the groups are ranked.
    """

    owners: Int64
    data: list[UInt8]
    ranked_count: int


def write_ranked(
    this: Round, number: int, target: PodCostTarget, ranked: Ranked, waits_for: Mapping[int, int]
) -> Written:
    """Return the complete groups of target `number`. waits_for : by owner, the owner that is scaled down first."""
    snapshot, members = this.snapshot, ranked.members
    every = owner_texts(snapshot, this.work.cache).names
    names = [every[owner] for owner in members.owners.tolist()]
    heads, head_offsets = _joined_bytes(
        [
            pb.PodCostShare(strategy=BY_CODE[term.strategy].code, name=term.name).SerializeToString()
            for term in target.terms
        ]
    )
    owners, owner_offsets = joined(names)
    waits, waits_offsets = joined(
        [every[waits_for[owner]] if owner in waits_for else "" for owner in members.owners.tolist()]
    )
    both = ranked.shares.reshape(len(ranked.shares), -1).astype("<f8", copy=False)
    groups = RankedGroups(
        bounds=members.bounds,
        pods=members.pods,
        costs=ranked.costs,
        shares=both.view(np.uint8),
        heads=heads,
        head_offsets=head_offsets,
        owners=owners,
        owner_offsets=owner_offsets,
        waits_for=waits,
        waits_offsets=waits_offsets,
        after_each=np.array([ranked.after_each_removal], np.int64),
        target=np.array([number], np.int64),
    )
    texts = texts_of(snapshot, this.work.cache)
    sizes, ends = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    out = np.empty(write_groups(texts, groups, sizes, ends, np.zeros(0, np.uint8)), np.uint8)
    if len(out):
        write_groups(texts, groups, sizes, ends, out)
    # Arrays, as they share memory and the garbage collector does not track them; thousands of views would trigger it.
    data = [out[first:last] for first, last in pairwise([0, *ends.tolist()])]
    return Written(members.owners, data, len(data))


def write_left_alone(this: Round, owner: int, target: int, why: LeftAlone) -> Written:
    """Return a group without costs."""
    entry = pb.PodCostsDecision()
    entry.groups.add(owner=owner_name(this.snapshot, owner), reason=why.reason, detail=why.detail, target=target)
    return Written(np.array([owner], np.int64), [np.frombuffer(entry.SerializeToString(), np.uint8)], 0)


def in_order(this: Round, written: list[Written]) -> Iterator[bytes]:
    """Yield all groups in order of their owners' texts, as bytes of small messages: merged ones free memory for the
    next, so a hundred thousand pods need no memory for a second copy.
    """
    if not written:
        return
    owners = np.concatenate([one.owners for one in written])
    data = [part for one in written for part in one.data]
    order = np.argsort(owner_texts(this.snapshot, this.work.cache).place[owners])
    ends = np.cumsum([len(data[at]) for at in order.tolist()])
    # The first group of each part.
    starts = np.flatnonzero(np.diff(ends // PART_BYTES, prepend=-1)).tolist()
    for first, last in pairwise([*starts, len(order)]):
        yield b"".join([data[at] for at in order[first:last].tolist()])


def _joined_bytes(parts: list[bytes]) -> tuple[UInt8, Int64]:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(one) for one in parts], out=offsets[1:])
    return np.frombuffer(b"".join(parts), np.uint8).copy(), offsets
