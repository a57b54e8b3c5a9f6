"""What a strategy is given, and what it answers. Ranks are at least 0; a pod with a higher rank is removed sooner."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.planner.classes.label_columns import label_entries
from trimtab.planner.pod_costs.members import Members
from trimtab.planner.pod_costs.settings import PodCostTerm
from trimtab.planner.round.round import Round
from trimtab.planner.snapshot.caches import SnapshotKey
from trimtab.planner.snapshot.columns import Bool, Float64, Int32, Int64, Snapshot
from trimtab.planner.snapshot.references import take_or
from trimtab.planner.snapshot.texts import string_index
from trimtab.v1.reason_pb2 import PodCostGroupReason as Reason

N = TypeVar("N", bound=np.generic)
USUAL_THRESHOLD = float(1 << 20)
"""For ranks that are small numbers: none is above it, and a difference of 1 still affects the cost."""


class Unranked(NamedTuple):
    """Pods that a strategy cannot rank. which : bool[M]; detail : returns the reason, given a member's position."""

    which: Bool
    reason: "Reason.Code.ValueType"
    detail: Callable[[int], str]


class Ranks(NamedTuple):
    """rank : float64[M], arbitrary for unranked pods; unranked : pods without rank; linked : int64[G] the smallest
    group that each is linked with, of which only one may be scaled down at a time, None = no group is."""

    rank: Float64
    unranked: tuple[Unranked, ...] = ()
    linked: Int64 | None = None


@dataclass(frozen=True)
class RankingContext:
    """The round, and the members of all groups of the target."""

    round: Round
    members: Members

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot of the round."""
        return self.round.snapshot

    @cached_property
    def node(self) -> Int32:
        """Node of each member, negative = no known node. int32[M]."""
        return self.snapshot.pods.node[self.members.pods]

    @cached_property
    def placed(self) -> Bool:
        """Return which members are on a node. bool[M]."""
        on_node: Bool = self.node >= 0
        return on_node

    @property
    def without_node(self) -> tuple[Unranked, ...]:
        """The result for pods without node, for strategies that rank by nodes."""
        if self.placed.all():
            return ()

        def detail(member: int) -> str:
            return f"{self.pod(member)} is on no node of the snapshot"

        return (Unranked(~self.placed, Reason.POD_WITHOUT_NODE, detail),)

    def pod(self, member: int) -> str:
        """Return "namespace/name" of a member."""
        return self.snapshot.pod_key(int(self.members.pods[member]))

    def of_node(self, values: Float64) -> Float64:
        """Return the value of each member's node, 0 without node. values : float64[N]."""
        return self.of_node_or(values, 0.0)

    def of_node_or(self, values: NDArray[N], without: float) -> NDArray[N]:
        """Return the value of each member's node. values : [N], any dtype, which the result
        has; without : value of members without node."""
        return take_or(values, np.where(self.placed, self.node, -1), without)

    def domains(self, key: str) -> tuple[Int32, int]:
        """Return (domain of each node, -1 without the label : int32[N]; number of domains)."""

        def domains(view: Snapshot) -> tuple[Int32, int]:
            node, keys, values = label_entries(view.label_sets, view.nodes.label_set)
            mine = keys == string_index(view.strings, key)
            distinct, domain = np.unique(values[mine], return_inverse=True)
            row = np.full(len(view.nodes.name), -1, np.int32)
            row[node[mine]] = domain
            return row, len(distinct)

        return self.round.work.cache.get(DomainsKey(key), self.snapshot, domains)


@dataclass(frozen=True)
class DomainsKey(SnapshotKey[tuple[Int32, int]]):
    """The domain of each node, and how many there are. label : key of the label."""

    label: str


class Strategy(NamedTuple):
    """One strategy. rank : ranks the members, given the term and its threshold; threshold : cap for ranks if the term
    has none; after_each_removal : its ranks are valid only until the next removal."""

    rank: Callable[[RankingContext, PodCostTerm, float], Ranks]
    threshold: float = USUAL_THRESHOLD
    after_each_removal: bool = False
