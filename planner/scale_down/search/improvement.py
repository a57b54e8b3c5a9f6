"""An attempt that improves the plan of another one by an exchange of nodes (`exchange`), where money decides."""

import numpy as np

from trimtab.planner.scale_down.search.drain_sets import BudgetRule, DrainOptions, DrainSet, DrainTask, prepared, run
from trimtab.planner.scale_down.search.exchange import Exchange, pays_for
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32


def improved(task: DrainTask, plan: DrainSet, state: SimulationState) -> DrainSet:
    """Return a plan that saves more, with its moves in the simulation; the plan itself, without its moves, if none is
    found.

    Not tried where other rules decide which nodes go: evenness of groups, all-or-nothing groups, gangs that move
    whole, a bound on new nodes.
    """
    settings = task.settings
    ruled = task.balance is not None or settings.max_evaluated or settings.max_new_unneeded
    if not settings.search.exchange_checks or ruled or not task.in_time():
        return plan
    eligible = task.nodes.eligible
    if task.nodes.atomic_size[eligible].any() or (task.nodes.gangs.of_node[eligible] >= 0).any():
        return plan
    task = task.searching(plan.staying, state)
    start = current_mark(state)
    options = DrainOptions(plan.options.order)
    problem = prepared(task, _search_order(task), options)
    candidates = task.nodes.eligible[problem.incoming_count[task.nodes.eligible] == 0]
    search = Exchange(task, problem, candidates)
    better = search.improve(plan.accepted, plan.problem.destination)
    revert(state, start)
    if better is None:
        return plan
    rest = plan.candidates[~np.isin(plan.candidates, better.nodes)]
    proposed = options._replace(rule=BudgetRule.AT_ONCE, repeated=len(better.nodes), proposed=better.destination)
    found = run(task, np.concatenate([better.nodes, rest]).astype(np.int32), proposed)
    return plan if found.stopped_at >= 0 else found


def is_worth_exchanging(task: DrainTask, pods: int) -> bool:
    """Return whether the effort pays for an exchange in a plan that moves so many pods."""
    return pays_for(task.settings.search.exchange_checks, pods)


def _search_order(task: DrainTask) -> Int32:
    """Return the nodes in which places are searched: those that stay anyway, then the candidates. int32."""
    return np.concatenate([task.nodes.staying, task.nodes.eligible[::-1]]).astype(np.int32)
