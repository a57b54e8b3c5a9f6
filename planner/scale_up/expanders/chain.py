"""The chain of expanders: each decides among the options that the previous one rates equal.

The first is always applied, to exclude options even if there is only one; the others only while more than one option is
left. If one excludes all options that the others left, the choice is repeated without these; upstream then adds no
node. Among options that all others rate equal, the cheapest for what it serves is preferred before RANDOM decides, if
all of them have prices and PRICE is not configured; RANDOM alone decides alone. Among options that all rate equal, the
first by group is chosen. CHEAPEST_PLAN is not part of the chain: it chooses among plans, not among options.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np

from trimtab.planner.scale_up.expanders import price, scores
from trimtab.planner.scale_up.options import ChoiceState, ExpanderContext, Float64, Options
from trimtab.planner.snapshot.columns import Bool, Int32, Int64
from trimtab.v1 import plan_pb2 as pb
from trimtab.v1.reason_pb2 import NodeGroupReason

Score = Callable[[ExpanderContext, ChoiceState, Options], Float64]


class Expander(NamedTuple):
    """One expander. score : the larger, the better, NaN = excluded; excludes : why it excludes options, if it does."""

    score: Score
    excludes: int = NodeGroupReason.UNSPECIFIED


EXPANDERS: Final[Mapping[int, Expander]] = {
    pb.Expander.LEAST_WASTE: Expander(scores.least_waste),
    pb.Expander.MOST_PODS: Expander(scores.most_pods),
    pb.Expander.LEAST_NODES: Expander(scores.least_nodes),
    pb.Expander.PRICE: Expander(price.score, NodeGroupReason.PRICE_UNKNOWN),
    pb.Expander.PRIORITY: Expander(scores.priority),
    pb.Expander.HIGHEST_PRIORITY: Expander(scores.highest_priority, NodeGroupReason.PRIORITY_INVALID),
    pb.Expander.BALANCED: Expander(scores.balanced),
    pb.Expander.RANDOM: Expander(scores.seeded_random),
}
NONE: Final = -1


class Verdict(NamedTuple):
    """The result of a choice.

    chosen : the option, NONE if all are excluded or there is none; expanders : `Expander.Code`s in order; scores :
    float64[len(expanders), O], NaN if an option was excluded or no longer considered; decided_by : int32[O] the
    expander that preferred another option, UNSPECIFIED for the chosen and the excluded ones; reason : int32[O]
    `NodeGroupReason.Code`, UNSPECIFIED for the chosen one; order : int64[O] the options, best first.
    """

    chosen: int
    expanders: tuple[int, ...]
    scores: Float64
    decided_by: Int32
    reason: Int32
    order: Int64


class Chooser(NamedTuple):
    """One choice among node groups. context : the expanders' input; expanders : those configured, `Expander.Code`s;
    state : what differs from one choice to the next."""

    context: ExpanderContext
    expanders: tuple[int, ...]
    state: ChoiceState

    def verdict(self, options: Options) -> Verdict:
        """Choose among options by the configured expanders."""
        price = self.context.groups.price_per_hour[options.group]
        return choose(self.context, self.state, options, nearest_to_cheapest(self.expanders, price))


def nearest_to_cheapest(configured: tuple[int, ...], price: Float64) -> tuple[int, ...]:
    """Return the expanders that choose among options: if CHEAPEST_PLAN is the only one, those nearest to it.

    price : float64[O] of a node of each option, NaN = unknown.
    """
    if configured != (pb.Expander.CHEAPEST_PLAN, pb.Expander.RANDOM):
        return configured
    nearest = pb.Expander.LEAST_NODES if np.isnan(price).any() else pb.Expander.PRICE
    return (nearest, pb.Expander.LEAST_WASTE, pb.Expander.RANDOM)


def choose(context: ExpanderContext, state: ChoiceState, options: Options, expanders: Iterable[int]) -> Verdict:
    """Choose one option. expanders : `Expander.Code`s; those not in `EXPANDERS` are skipped.

    O(options · expanders); repeated for each exclusion of all options.
    """
    chain = [code for code in expanders if code in EXPANDERS]
    found = _choose(context, state, options, chain)
    beaten = np.flatnonzero(found.reason == NodeGroupReason.NOT_CHOSEN)
    if found.chosen != NONE or len(beaten) == 0:
        return found
    return _among(beaten, found, choose(context, state, _rows(options, beaten), chain))


def _choose(context: ExpanderContext, state: ChoiceState, options: Options, chain: list[int]) -> Verdict:
    left = np.argsort(options.group, kind="stable")
    ranking = _Ranking(len(left))
    for code in chain:
        if len(left) == 0 or (len(left) == 1 and ranking.expanders):
            break
        if code == pb.Expander.RANDOM and pb.Expander.PRICE not in chain and ranking.expanders:
            cost = price.cost(context, _rows(options, left))
            left = left if np.isnan(cost).any() else ranking.note(pb.Expander.PRICE, left, np.negative(cost))
            if len(left) == 1:
                break
        scores = EXPANDERS[code].score(context, state, _rows(options, left))
        left = ranking.note(code, left, scores)
    return ranking.choice(left)


def _rows(options: Options, rows: Int64) -> Options:
    return Options(*(column[rows] for column in options))


def _among(rows: Int64, all_options: Verdict, part: Verdict) -> Verdict:
    """Return a choice among some of the options, `rows`, as one among all: the others were excluded."""
    scores = np.full((len(part.expanders), len(all_options.reason)), np.nan)
    scores[:, rows] = part.scores
    decided_by, reason = all_options.decided_by.copy(), all_options.reason.copy()
    decided_by[rows], reason[rows] = part.decided_by, part.reason
    excluded = all_options.order[~np.isin(all_options.order, rows)]
    return Verdict(
        chosen=int(rows[part.chosen]) if part.chosen != NONE else NONE,
        expanders=part.expanders,
        scores=scores,
        decided_by=decided_by,
        reason=reason,
        order=np.concatenate([rows[part.order], excluded]),
    )


class _Ranking:
    """Options in the order in which they are eliminated."""

    def __init__(self, count: int) -> None:
        self.expanders: list[int] = []
        self._scores: list[Float64] = []
        self._decided_by = np.zeros(count, np.int32)
        self._reason = np.zeros(count, np.int32)
        self._worse: list[Int64] = []

    def note(self, code: int, left: Int64, scores: Float64) -> Int64:
        """Record an expander's scores; return the options that it rates highest."""
        self.expanders.append(code)
        row = np.full(len(self._reason), np.nan)
        row[left] = scores
        self._scores.append(row)
        excluded = np.isnan(scores)
        self._reason[left[excluded]] = EXPANDERS[code].excludes
        best: Bool = scores == scores[~excluded].max(initial=-np.inf)
        beaten = ~best & ~excluded
        self._reason[left[beaten]] = NodeGroupReason.NOT_CHOSEN
        self._decided_by[left[beaten]] = code
        # A stable sort: options that rate equal stay in the order of their groups.
        falls = np.lexsort((np.negative(scores[~best]), excluded[~best]))
        self._worse.insert(0, left[~best][falls])
        return left[best]

    def choice(self, left: Int64) -> Verdict:
        """Return the choice among the options left: the first by group."""
        last = self.expanders[-1] if self.expanders else pb.Expander.UNSPECIFIED
        self._reason[left[1:]] = NodeGroupReason.NOT_CHOSEN
        self._decided_by[left[1:]] = last
        return Verdict(
            chosen=int(left[0]) if len(left) else NONE,
            expanders=tuple(self.expanders),
            scores=np.array(self._scores, np.float64).reshape(len(self.expanders), len(self._reason)),
            decided_by=self._decided_by,
            reason=self._reason,
            order=np.concatenate([left, *self._worse]),
        )
