"""Advice on a plan that a planner has just made, with a progress bar on a terminal."""

from dataclasses import replace
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from trimtab.clients.advice.advise import AdviceOptions, advise
from trimtab.clients.advice.levers.requests import requests_above_use
from trimtab.clients.advice.result import MOST_PLANS, AdviceReport
from trimtab.clients.cli.failures import UsageError
from trimtab.clients.cli.terminal import progress
from trimtab.clients.cli.usage import ClusterUsage
from trimtab.clients.cluster_view import ClusterView
from trimtab.clients.planner_client import PlannerClient
from trimtab.v1 import plan_pb2

MOST_BESIDE: Final = 6
"""Plans for the section of another answer. Each takes as long as one plan or less, so that all of them take about as
long as reading the cluster and planning it.
"""


def advice_options(
    usage: ClusterUsage | None = None, most_plans: int = MOST_PLANS, *, is_brief: bool = False
) -> AdviceOptions:
    """Return the options of advice. usage : what pods use, None = not known; is_brief : a section of another answer."""
    more = requests_above_use(usage.containers, usage.margin) if usage is not None else None
    return replace(AdviceOptions(MOST_BESIDE, more), most_steps=1) if is_brief else AdviceOptions(most_plans, more)


def find_advice(
    planner: PlannerClient,
    view: ClusterView,
    request: plan_pb2.PlanRequest,
    answer: plan_pb2.PlanResponse,
    options: AdviceOptions,
) -> AdviceReport:
    """Return what to change so that more nodes could go. request, answer : the last plan of this planner.

    Errors: UsageError for a damaged cluster, and those of the planner.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with progress("planning changes", *columns, total=options.most_plans) as show:
        told = replace(options, progress=lambda done, most: show(completed=done, total=most))
        try:
            return advise(planner, view, request, answer, told)
        except (IndexError, ValueError) as error:
            raise UsageError(f"the recorded cluster is damaged: {error}; record again") from error
