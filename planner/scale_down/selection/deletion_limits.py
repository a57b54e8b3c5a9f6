"""How many nodes may go now: empty ones first, then drains; all-or-nothing groups only as a whole.

Limits count deletions in progress. One all-or-nothing group may exceed them if anything is left at all: otherwise a
group larger than the limit could never go, and small deletions would starve it.
Source: Cluster Autoscaler, core/scaledown/budgets, ScaleDownBudgetProcessor.CropNodes.
"""

from typing import NamedTuple


class Bucket(NamedTuple):
    """Nodes that could go now, most preferred first: those of an `atomic` group, all of its `size` or
    none, or others.
    """

    group: str
    nodes: tuple[int, ...]
    atomic: bool
    size: int


class Room(NamedTuple):
    """Nodes that may still be deleted, and among them drained."""

    total: int
    drain: int


class Crop(NamedTuple):
    """Nodes that go now, in the order in which they were chosen."""

    empty: tuple[int, ...]
    drain: tuple[int, ...]


def room(max_parallelism: int, max_drain: int, deleting: int, draining: int) -> Room:
    """Return the remaining limits. deleting : all deletions in progress, `draining` among them."""
    total = max(max_parallelism - deleting, 0)
    return Room(total, min(max(max_drain - draining, 0), total))


class _Cropper:
    """The remaining limits while nodes are selected."""

    def __init__(self, left: Room) -> None:
        self.total = left.total
        self.drain = left.drain
        self.may_overflow = True

    def admits(self, empty: int, drain: int) -> bool:
        """Return whether an all-or-nothing group of this many nodes may go."""
        if self.total >= empty + drain and self.drain >= drain:
            return True
        return self.may_overflow and self.total > 0 and (drain == 0 or self.drain > 0)

    def take(self, empty: int, drain: int) -> None:
        """Subtract nodes from the limits."""
        self.total = max(self.total - empty - drain, 0)
        self.drain = min(max(self.drain - drain, 0), self.total)


def crop(empty: tuple[Bucket, ...], drain: tuple[Bucket, ...], left: Room) -> Crop:
    """Return which of the empty nodes and of those to be drained go now, by node group in the given order.

    An all-or-nothing group goes only whole: its empty and its other nodes together must be its size.
    """
    limits = _Cropper(left)
    chosen_empty: list[int] = []
    chosen_drain: list[int] = []
    # Groups with empty nodes first; a group that may not go ends its half of the list, as upstream's does.
    for half in _atomic_groups(empty, drain):
        for bucket, bare, full in half:
            if len(bare) + len(full) != bucket.size:
                continue
            if not limits.admits(len(bare), len(full)):
                break
            limits.may_overflow = False
            limits.take(len(bare), len(full))
            chosen_empty += bare
            chosen_drain += full
    for bucket in empty:
        if not bucket.atomic:
            some = bucket.nodes[: limits.total]
            limits.take(len(some), 0)
            chosen_empty += some
    for bucket in drain:
        if not bucket.atomic:
            some = bucket.nodes[: limits.drain]
            limits.take(0, len(some))
            chosen_drain += some
    return Crop(tuple(chosen_empty), tuple(chosen_drain))


_Group = tuple[Bucket, tuple[int, ...], tuple[int, ...]]


def _atomic_groups(empty: tuple[Bucket, ...], drain: tuple[Bucket, ...]) -> tuple[list[_Group], list[_Group]]:
    """Return the all-or-nothing groups with their empty and their other nodes: those with empty nodes, the others."""
    to_drain = {bucket.group: bucket.nodes for bucket in drain if bucket.atomic}
    with_empty = [(bucket, bucket.nodes, to_drain.get(bucket.group, ())) for bucket in empty if bucket.atomic]
    seen = {bucket.group for bucket, _, _ in with_empty}
    none: tuple[int, ...] = ()
    return with_empty, [(one, none, one.nodes) for one in drain if one.atomic and one.group not in seen]
