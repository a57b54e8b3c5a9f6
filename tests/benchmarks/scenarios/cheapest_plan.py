"""The cheapest plan alone, in numbers: no snapshot, simulation or predicate."""

from functools import partial

from tests.benchmarks.registry import Stages, scenario
from tests.builders.pending_problems import karpenter_problem, random_problem
from tests.certificates.cheapest_plan import offences
from trimtab.planner.cheapest.plan import cheapest_plan
from trimtab.planner.cheapest.problem import Plan, Problem


def run(made: Problem, stages: Stages) -> Plan:
    with stages.stage("total"):
        plan = cheapest_plan(made)
    stages.fact("price per hour", plan.price)
    stages.fact("nodes", int(plan.nodes.sum()))
    return plan


def verify(made: Problem, plan: Plan) -> None:
    assert offences(made, plan) == []
    assert not plan.left.any()


for count in (1_000, 10_000, 20_000):
    scenario(
        name=f"cheapest-plan-{count}-pods-1200-groups",
        what=f"the shape of Karpenter's scheduling benchmark, {count:,} pods, 1,200 node groups",
        setup=partial(karpenter_problem, count),
        run=run,
        verify=verify,
        aims={"total": 0.1} if count == 10_000 else {},
    )

scenario(
    name="cheapest-plan-3000-pods-50-groups",
    what="3,000 pods of up to 60 classes, 50 node groups",
    setup=partial(random_problem, 12, groups=50, pods=3_000),
    run=run,
    verify=verify,
)
