"""Sets of candidates that save more than a given amount and whose pods may nearly have places: sets to begin with, and
those that differ from one by a node.

Where nodes are alike, those with many pods go rather than empty ones: pods that move can be packed in many ways, pods
that stay where they are cannot. Of 12 sets of 16 equal nodes with many pods, 5 could be packed, of 12 other sets none.
The linear bound is kept to: no share is used up twice.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.facts.nodes import total
from trimtab.planner.scale_down.search.orders import shuffled
from trimtab.planner.snapshot.columns import Bool, Float64, Int64

ARBITRARY: Final = 0.3
"""Part by which an arbitrary number may raise what a candidate counts, in the order in which a set is filled."""
FULL: Final = 0.3
"""Part by which its pods do, those of a candidate with most pods."""
COMES_BACK: Final = 0.5
"""What a node that only comes back counts, where one that comes back for another counts by up to 1, by their pods."""
SAME: Final = 1e-9
"""Difference of two amounts that may be rounding."""


class Candidates(NamedTuple):
    """saving : float64[E] per hour; share : float64[Q, E] of what limits plans; pods : int64[E] to move of each."""

    saving: Float64
    share: Float64
    pods: Int64

    @property
    def density(self) -> Float64:
        """What each candidate saves for its largest share. float64[E]."""
        density: Float64 = self.saving / np.maximum(self.share.max(axis=0, initial=0.0), SAME)
        return density

    @property
    def fullness(self) -> Float64:
        """The pods of each candidate as a part of the most. float64[E]."""
        fullness: Float64 = self.pods / max(int(self.pods.max(initial=0)), 1)
        return fullness

    def only(self, these: Bool) -> "Candidates":
        """Return some of the candidates : bool[E]."""
        return Candidates(self.saving[these], self.share[:, these], self.pods[these])

    def fits(self, chosen: Bool) -> bool:
        """Return whether the linear bound allows a set : bool[E]."""
        return not bool((self.share[:, chosen].sum(axis=1) > 1.0 + SAME).any())


def noise(count: int, number: int) -> Float64:
    """Return the numbers 0, 1/C, 2/C, ... in an arbitrary order that depends only on the given number. float64[C]."""
    found: Float64 = np.argsort(shuffled(np.arange(count, dtype=np.int32), number)) / count
    return found


def filled(candidates: Candidates, floor: float, number: int) -> Bool | None:
    """Return a set that saves more than `floor` by as little as the last node allows, filled in an order that differs
    from number to number; None if the linear bound allows none. bool[E]."""
    worth = 1.0 + FULL * candidates.fullness + ARBITRARY * noise(len(candidates.saving), number)
    chosen = np.zeros(len(worth), np.bool_)
    for one in np.argsort(-candidates.density * worth, kind="stable").tolist():
        chosen[one] = True
        if not candidates.fits(chosen):
            chosen[one] = False
        elif total(candidates.saving[chosen]) > floor + SAME:
            return chosen
    return None


def differing_by_a_node(candidates: Candidates, chosen: Bool, floor: float, number: int) -> Iterator[Bool]:
    """Yield sets that save more than `floor` and that differ from one : bool[E] by a node that comes back, with another
    that goes instead or without: rather nodes with few pods for nodes with many, else in an order that differs from
    number to number."""
    gone, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    saving, share, fullness = candidates.saving, candidates.share, candidates.fullness
    gain = saving[None, others] - saving[gone, None]
    room = 1.0 + SAME - share[:, chosen].sum(axis=1)
    may = total(saving[chosen]) + gain > floor + SAME
    may &= (share[:, None, others] - share[:, gone, None] <= room[:, None, None]).all(axis=0)
    rows, columns = np.nonzero(may)
    alone = gone[total(saving[chosen]) - saving[gone] > floor + SAME]
    back = np.concatenate([gone[rows], alone])
    go = np.concatenate([others[columns], np.full(len(alone), -1)])
    worth = np.where(go < 0, COMES_BACK, fullness[go] - fullness[back])
    for at in np.argsort(-worth - noise(len(back), number), kind="stable").tolist():
        other = chosen.copy()
        other[back[at]] = False
        if go[at] >= 0:
            other[go[at]] = True
        yield other
