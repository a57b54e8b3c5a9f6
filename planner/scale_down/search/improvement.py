"""An attempt that improves the plan of another one by an exchange of nodes (`exchange`), where money decides."""

import numpy as np

from trimtab.planner.scale_down.search.drain_sets import (
    DrainOptions,
    DrainSet,
    DrainTask,
    LaterCandidates,
    prepared,
    run,
)
from trimtab.planner.scale_down.search.exchange import Exchange, Improved, pays_for
from trimtab.planner.scale_down.search.waves import have_used_up_budgets
from trimtab.planner.simulation.kernels import revert
from trimtab.planner.simulation.log import current_mark
from trimtab.planner.simulation.state import SimulationState
from trimtab.planner.snapshot.columns import Int32


def improved(task: DrainTask, plan: DrainSet, all_waves: DrainSet | None, state: SimulationState) -> DrainSet:
    """Return a plan that saves more, with its moves in the simulation; the plan itself, without its moves, if none is
    found.

    all_waves : the plan with its later waves; None = there are none. With waves, nodes are exchanged in all of them
    together, and the result is the first wave, with the nodes that are kept for later ones. Not tried where other rules
    decide which nodes go: evenness of groups, all-or-nothing groups, gangs that move whole, a bound on simulated nodes.
    """
    settings = task.settings
    ruled = task.balance is not None or settings.max_evaluated
    if not settings.search.exchange_checks or ruled or not task.in_time():
        return plan
    nodes = task.nodes
    every = nodes.eligible if all_waves is None else np.concatenate([nodes.eligible, nodes.later.nodes])
    if nodes.atomic_size[every].any() or (nodes.gangs.of_node[every] >= 0).any():
        return plan
    task = task.searching(plan.staying, state)
    before = plan if all_waves is None else all_waves
    start = current_mark(state)
    problem = prepared(task, _search_order(task), DrainOptions(plan.options.order))
    candidates = np.sort(every[problem.incoming_count[every] == 0]).astype(np.int32)
    if all_waves is not None:
        enters = ~have_used_up_budgets(task.problem) | nodes.unneeded_before
        enters[nodes.later.nodes] = True
        candidates = candidates[enters[candidates]]
    search = Exchange(task, problem, candidates, 1 if all_waves is None else settings.max_waves)
    better = search.improve(before.accepted, before.problem.destination)
    revert(state, start)
    if better is None:
        return plan
    rest = np.concatenate([plan.candidates, plan.later.nodes])
    found = carried_out(task, better, rest[~np.isin(rest, better.nodes)], DrainOptions(plan.options.order))
    return plan if found.stopped_at >= 0 else found


def carried_out(task: DrainTask, better: Improved, rest: Int32, options: DrainOptions) -> DrainSet:
    """Make the first wave of a better plan, and keep the nodes of its later waves for these. rest : int32 other
    candidates, tried after it."""
    first = better.nodes[better.wave == 1]
    if len(first) < len(better.nodes) or len(task.nodes.later.nodes):
        by_wave = np.argsort(better.wave, kind="stable")[len(first) :]
        refilled = task.nodes.later.refilled
        task = task.keeping(LaterCandidates(better.nodes[by_wave], better.wave[by_wave], refilled))
    options = options._replace(repeated=len(first), proposed=better.destination)
    return run(task, np.concatenate([first, rest]).astype(np.int32), options)


def is_worth_exchanging(task: DrainTask, pods: int) -> bool:
    """Return whether the effort pays for an exchange in a plan that moves so many pods."""
    return pays_for(task.settings.search.exchange_checks, pods)


def _search_order(task: DrainTask) -> Int32:
    """Return the nodes in which places are searched: those that stay anyway, then the candidates. int32."""
    return np.concatenate([task.nodes.staying, task.nodes.eligible[::-1]]).astype(np.int32)
