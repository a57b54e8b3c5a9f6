"""Advice holds: with its lines applied to settings and objects, a plan of the changed cluster frees exactly the
promised nodes, and saves exactly what was promised.
"""

import pytest

from tests.builders.advised_clusters import AdvisedCase, generated, promises
from tests.builders.carried_out import carried_out
from trimtab.clients.advice.result import AdviceReport
from trimtab.clients.planner_client import PlannerClient

SAMPLE, ALL = range(3), range(3, 500)


def assert_holds(planner: PlannerClient, case: AdvisedCase, report: AdviceReport) -> None:
    """Carry out all advice, each on the original cluster, and compare the plans."""
    price = {
        one.name: group.price_per_hour
        for group in case.snapshot().node_groups
        for one in case.snapshot().nodes
        if one.node_group == group.id
    }
    for advice in promises(report):
        changed = AdvisedCase(*carried_out(case.objects, case.settings, advice.document()))
        going = {one.node for one in changed.plan(planner).scale_down.unneeded}
        promised = set(report.base_nodes) - set(advice.staying) | set(advice.nodes)
        assert going == promised, advice.sentence
        saved = sum(price[node] for node in going) - sum(price[node] for node in report.base_nodes)
        assert advice.saving_per_hour == pytest.approx(saved), advice.sentence
        assert advice.node_count == len(going) - len(report.base_nodes)


@pytest.mark.ci
@pytest.mark.parametrize(
    "seed", [*SAMPLE, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in ALL)]
)  # fmt: skip
def test_the_promised_nodes_go_once_the_change_is_made(planner: PlannerClient, seed: int) -> None:
    case = generated(seed)
    report = case.advice(planner)
    assert set(report.base_nodes) == {one.node for one in case.plan(planner).scale_down.unneeded}
    assert_holds(planner, case, report)


@pytest.mark.nightly
def test_eight_clusters_have_advice_of_most_kinds(planner: PlannerClient) -> None:
    kinds = {one.kind.value for seed in range(8) for one in promises(generated(seed).advice(planner))}
    assert {"BUDGET", "UTILIZATION", "LOCAL_STORAGE", "GROUP_MINIMUM", "SEVERAL"} <= kinds
