"""What to change in a cluster or its settings so that more nodes could go, and what each change frees.

A client of the planner: it lifts one blocker after the other in a copy of the request, has the planner plan again, and
compares. A change is advised only with the nodes that the planner's own plan frees beyond the base plan, never with
the price of the nodes that it keeps. Reads no clock and no file; equal input gives equal advice.
"""

from trimtab.clients.advice.advise import LEAST_SAVING, AdviceOptions, advise
from trimtab.clients.advice.changes import AdvisedChange
from trimtab.clients.advice.counterfactuals import PlannerCalls
from trimtab.clients.advice.levers.requests import (
    DEFAULT_MARGIN,
    ContainerUse,
    PodContainers,
    requests_above_use,
)
from trimtab.clients.advice.of_workload import KeptNode, WorkloadReport, explain_workload
from trimtab.clients.advice.result import Advice, AdviceReport, Blocker

__all__ = [
    "DEFAULT_MARGIN",
    "LEAST_SAVING",
    "Advice",
    "AdviceOptions",
    "AdviceReport",
    "AdvisedChange",
    "Blocker",
    "ContainerUse",
    "KeptNode",
    "PlannerCalls",
    "PodContainers",
    "WorkloadReport",
    "advise",
    "explain_workload",
    "requests_above_use",
]
