"""What the plan of a case is worth, checked by the certificates, and how two trees' figures compare."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tests.benchmarks.corpus.cases import NOW_S, Case
from tests.certificates import replacement, scale_down, scale_up, whole_plan
from trimtab.clients.verdicts import going
from trimtab.planner.decisions.device_plan import plan_devices
from trimtab.planner.device_amounts.planned import planned_snapshot
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

Figures = dict[str, float]


class Kind(NamedTuple):
    """How a figure is judged. more_is_better : else less is; of_each, of_sum : by what share a case, and the sum of
    all, may be worse.
    """

    more_is_better: bool
    of_each: float
    of_sum: float


KINDS: Final[Mapping[str, Kind]] = {
    "saved": Kind(True, 0.005, 0.001),
    "removed": Kind(True, 0.005, 0.001),
    "growth": Kind(False, 0.005, 0.001),
    "unplaced": Kind(False, 0.0, 0.0),
    "slack": Kind(True, 0.005, 0.001),
    "moves": Kind(False, float("inf"), 0.02),
    "waves": Kind(False, float("inf"), 0.02),
}
"""saved : by scale-down and replacement, an hour; removed : nodes, where their number is the objective; growth : price
of new nodes an hour; unplaced : pods; slack : placeholders with a place; moves and waves are judged as sums alone."""


def figures(case: Case) -> Figures:
    """Plan, and return the figures. Raises AssertionError if a certificate is broken."""
    answer = plan_devices(planned_snapshot(canonicalize(case.snapshot)), case.request, None, Work()).answer
    broken = list(_offences(case, answer))
    assert not broken, f"{case.name}: {broken[:3]}"
    down, new = answer.scale_down.unneeded, answer.replacement.waves
    decided, known = answer.summary.decisions, not answer.summary.assumption
    found: Figures = {
        "saved": known * sum(one.saved_per_hour for one in decided if one.decision == plan_pb2.Decision.SCALE_DOWN)
        + sum(wave.saving_per_hour for wave in new),
        "growth": answer.scale_up.price_per_hour,
        "unplaced": sum(len(one.pods) for one in answer.scale_up.unschedulable),
        "slack": sum(bool(one.node) for one in answer.slack.placeholders),
        "moves": sum(len(one.places.pods) for one in (answer.scale_down, *new)),
        "waves": max((one.wave for one in going(answer)), default=0) + len(new),
    }
    if any(
        one.objective == plan_pb2.Objective.COUNT for one in decided if one.decision == plan_pb2.Decision.SCALE_DOWN
    ):
        found |= {"removed": len(down), "saved": 0.0}
    return {name: round(value, 6) for name, value in found.items() if value}


def _offences(case: Case, answer: plan_pb2.PlanResponse) -> Iterator[str]:
    asked, settings = set(case.request.decisions), case.request.settings
    if plan_pb2.Decision.SCALE_DOWN in asked:
        yield from scale_down.offences(case.snapshot, settings, answer, NOW_S)
    if plan_pb2.Decision.SCALE_UP in asked:
        yield from scale_up.offences(case.snapshot, settings, answer.scale_up, NOW_S, ordered=False)
    if asked == {plan_pb2.Decision.REPLACEMENT}:
        yield from replacement.offences(case.snapshot, settings, answer, NOW_S)
    if len(asked) > 1:
        yield from whole_plan.offences(case.snapshot, settings, answer, NOW_S)


class Difference(NamedTuple):
    """A figure that differs. worse : by what share of the figure before, negative = better."""

    case: str
    figure: str
    before: float
    after: float

    @property
    def worse(self) -> float:
        """By what share it is worse; of nothing, all."""
        loss = self.before - self.after if KINDS[self.figure].more_is_better else self.after - self.before
        return loss / self.before if self.before else loss and (1.0 if loss > 0 else -1.0)

    @property
    def is_allowed(self) -> bool:
        """Whether it is within the tolerance of its kind."""
        kind = KINDS[self.figure]
        return self.worse <= (kind.of_sum if self.case == TOTAL else kind.of_each) + 1e-9


TOTAL: Final = "all together"


def differences(before: Mapping[str, Figures], after: Mapping[str, Figures]) -> list[Difference]:
    """Return what differs in cases that both have, the worst first, then the sums of all kinds."""
    names = sorted(before.keys() & after.keys())
    pairs = [(name, kind) for name in names for kind in KINDS]
    each = [Difference(name, kind, before[name].get(kind, 0), after[name].get(kind, 0)) for name, kind in pairs]
    sums = [
        Difference(TOTAL, kind, *(sum(tree[name].get(kind, 0) for name in names) for tree in (before, after)))
        for kind in KINDS
    ]
    return [*sorted((one for one in each if one.before != one.after), key=lambda one: -one.worse), *sums]
