"""The scale-up decision: the best of several plans for the waiting pods.

Never acts, never reads a clock. The round's simulation is left with the new nodes open and all pods placed.
"""

from typing import NamedTuple

from trimtab.planner.round.decision import Decided
from trimtab.planner.scale_up.cheaper_groups import in_cheaper_groups
from trimtab.planner.scale_up.context import Context, survey
from trimtab.planner.scale_up.draft import Attempt, FixedNodes
from trimtab.planner.scale_up.preference import Worth, is_better, worth
from trimtab.planner.scale_up.repacking import may_shrink, repackings
from trimtab.planner.scale_up.report.answer import conclude, not_tried
from trimtab.planner.scale_up.report.finding import Finding, Made
from trimtab.planner.scale_up.request import ScaleUpRequest
from trimtab.planner.scale_up.variants import Variant, usual, variants
from trimtab.planner.simulation.build import Simulation
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import MoveLogFullError, check_log, current_mark, with_larger_log


def decide_scale_up(request: ScaleUpRequest) -> Decided:
    """Take the scale-up decision.

    If the log proves too short, it is replaced by a larger one, and everything is decided again.
    """
    if not request.settings.enabled:
        return not_tried(request)
    context = survey(request)
    start = current_mark(request.round.simulation.state)
    while True:
        simulation = request.round.simulation
        try:
            finding = _best(context, simulation, start)
        except MoveLogFullError:
            request.round.go_on_with(simulation._replace(state=with_larger_log(simulation.state, start)))
        else:
            return conclude(finding)


def _best(context: Context, simulation: Simulation, start: int) -> Finding:
    """Return the best of the plans, with its moves in the simulation.

    These are the usual plan, its variants, and versions of the best one with fewer nodes, as long as there are any, and
    with its nodes in cheaper groups.
    start : mark before anything is placed. Raises MoveLogFullError.
    """
    plans = _Plans(context, simulation, start)
    plans.make(usual(context))
    usually = plans.current.finding
    for variant in variants(usually, too_many_nodes=bool(may_shrink(usually))):
        plans.make(variant)
    while plans.make_with_fewer():
        pass
    plans.make_in_cheaper_groups()
    return plans.best()


class _Plan(NamedTuple):
    """A plan and how it was made. given : None = groups were chosen."""

    finding: Finding
    worth: Worth
    variant: Variant
    given: FixedNodes | None


class _Plans:
    """The plans made for one request; the best one is kept."""

    def __init__(self, context: Context, simulation: Simulation, start: int) -> None:
        self._context, self._simulation, self._start = context, simulation, start
        self._kinds: set[tuple[bytes, tuple[int, ...], bool, bool]] = set()
        self._best: _Plan | None = None
        self._is_there = False

    def make(self, variant: Variant) -> None:
        """Make a plan, unless an equal one was made before."""
        attempt = self._attempt(variant)
        if attempt.kind() not in self._kinds:
            self._kinds.add(attempt.kind())
            self._judge(attempt, variant)

    def make_with_fewer(self) -> bool:
        """Repeat the best plan with fewer new nodes; return whether the result is better."""
        groups = may_shrink(self.best())
        best = self.current
        for nodes in repackings(best.finding, groups, self._start):
            given = FixedNodes(nodes, best.finding.unserved, best.finding.made)
            if self._judge(self._attempt(best.variant, given), best.variant, given):
                return True
        return False

    def make_in_cheaper_groups(self) -> None:
        """Repeat the best plan, if it has the fewest nodes whatever their price, with them in cheaper groups."""
        best = self.current
        if not best.variant.fewest_nodes or not self._context.request.round.in_time():
            return
        nodes = in_cheaper_groups(self.best())
        if nodes is not None:
            given = FixedNodes(nodes, best.finding.unserved, _in_groups(best.finding.made, nodes.group_of))
            self._judge(self._attempt(best.variant, given), best.variant, given)

    def best(self) -> Finding:
        """Return the best plan, with its moves in the simulation."""
        if not self._is_there:
            best = self.current
            self._best = best._replace(finding=self._run(self._attempt(best.variant, best.given)))
            self._is_there = True
        return self.current.finding

    @property
    def current(self) -> _Plan:
        assert self._best is not None, "a plan has been made"
        return self._best

    def _attempt(self, variant: Variant, given: FixedNodes | None = None) -> Attempt:
        revert(self._simulation.state, self._start)
        self._is_there = False
        return Attempt(self._context, self._simulation, variant, given)

    def _judge(self, attempt: Attempt, variant: Variant, given: FixedNodes | None = None) -> bool:
        """Make a plan; return whether it is the best so far."""
        finding = self._run(attempt)
        plan, expanders = _Plan(finding, worth(finding), variant, given), self._context.request.settings.expanders
        if self._best is not None and not is_better(plan.worth, self._best.worth, expanders):
            return False
        self._best, self._is_there = plan, True
        return True

    def _run(self, attempt: Attempt) -> Finding:
        finding = attempt.run()
        check_log(self._simulation.state)
        return finding


def _in_groups(made: Made, group_of: list[int]) -> Made:
    """Return how a plan was made, with its planned nodes in these groups, if it needed no other nodes."""
    planned = made.planned
    if planned is None or len(planned.group_of) != len(group_of):
        return made
    return made._replace(planned=planned._replace(group_of=group_of))
