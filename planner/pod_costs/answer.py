"""The decision as the message that goes out: groups by owner. Decides nothing.

Complete groups are written as protobuf bytes by a kernel and merged, entry-wise building being far slower.
"""

from typing import NamedTuple

import numpy as np
from trimtab.v1 import plan_pb2 as pb

from planner.model.settings.pod_costs import PodCostTarget
from planner.pod_costs.kernels.wire import RankedGroups, write_groups
from planner.pod_costs.members import LeftAlone, owner_name, owner_texts
from planner.pod_costs.ranking import Ranked
from planner.pod_costs.strategies import BY_CODE
from planner.round.round import Round
from planner.snapshot.columns import Int64, UInt8
from planner.snapshot.texts import joined, texts_of


class Written(NamedTuple):
    """A group's bytes as they go out, under (owner as "Kind/namespace/name", number of the owner), which orders
    them."""

    key: tuple[str, int]
    data: bytes | memoryview


def write_ranked(this: Round, number: int, target: PodCostTarget, ranked: Ranked) -> list[Written]:
    """Return the complete groups of target `number`."""
    snapshot, members = this.snapshot, ranked.members
    every = owner_texts(snapshot, this.derive).names
    names = [every[owner] for owner in members.owners.tolist()]
    heads, head_offsets = _joined_bytes(
        [
            pb.PodCostShare(strategy=BY_CODE[term.strategy].code, name=term.name).SerializeToString()
            for term in target.terms
        ]
    )
    owners, owner_offsets = joined(names)
    waits_for, waits_offsets = joined(
        [
            owner_name(snapshot, ranked.waits_for[group]) if group in ranked.waits_for else ""
            for group in range(len(names))
        ]
    )
    both = np.concatenate((ranked.shares, ranked.own), axis=1).astype("<f8")
    groups = RankedGroups(
        bounds=members.bounds,
        pods=members.pods,
        costs=ranked.costs,
        shares=both.view(np.uint8),
        heads=heads,
        head_offsets=head_offsets,
        owners=owners,
        owner_offsets=owner_offsets,
        waits_for=waits_for,
        waits_offsets=waits_offsets,
        after_each=np.array([ranked.after_each_removal], np.int64),
        target=np.array([number], np.int64),
    )
    texts = texts_of(snapshot, this.derive)
    sizes, ends = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
    out = np.empty(write_groups(texts, groups, sizes, ends, np.zeros(0, np.uint8)), np.uint8)
    if len(out):
        write_groups(texts, groups, sizes, ends, out)
    data, bounds = out.data, [0, *ends.tolist()]
    keys = zip(names, members.owners.tolist(), strict=True)
    return [Written(key, data[bounds[i] : bounds[i + 1]]) for i, key in enumerate(keys)]


def write_left_alone(this: Round, owner: int, target: int, why: LeftAlone) -> Written:
    """Return a group without costs."""
    name = owner_name(this.snapshot, owner)
    entry = pb.PodCostsDecision()
    entry.groups.add(owner=name, reason=why.reason, detail=why.detail, target=target)
    return Written((name, owner), entry.SerializeToString())


def decision(written: list[Written]) -> pb.PodCostsDecision:
    """Return all groups in one message, sorted."""
    ordered = sorted(written, key=lambda one: one.key)
    return pb.PodCostsDecision.FromString(b"".join([one.data for one in ordered]))


def _joined_bytes(parts: list[bytes]) -> tuple[UInt8, Int64]:
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(one) for one in parts], out=offsets[1:])
    return np.frombuffer(b"".join(parts), np.uint8).copy(), offsets
