"""Advisory mode counts what rounds would have cost and saved, and carries nothing out."""

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.builders.loop import Setup, plan_of, replacing_plan, replacing_setup
from trimtab.clients.loop.advisory import Advisory, Proposal, proposals
from trimtab.clients.loop.rounds import RoundResult
from trimtab.v1 import plan_pb2


def round_of(answer: plan_pb2.PlanResponse) -> RoundResult:
    return RoundResult(plan_pb2.PlanRequest(), answer, None, False)


def whole_plan() -> plan_pb2.PlanResponse:
    """Return a plan with growth by 2 nodes at 0.5, a deletion that saves 2, and a replacement that saves 0.6."""
    answer = replacing_plan()
    answer.MergeFrom(plan_of(drain=["n7"], waiting=["n8"]))
    for one in answer.scale_down.unneeded:
        answer.nodes.add(node=one.node, price_per_hour=2.0)
        one.assumption.pods_to_move_count = 1
    answer.scale_up.splits.add(node_group="g", current_size=3, new_size=5)
    answer.summary.decisions.add(decision=plan_pb2.Decision.SCALE_UP, bought_per_hour=1.0)
    answer.summary.decisions.add(decision=plan_pb2.Decision.REPLACEMENT, saved_per_hour=1.0, bought_per_hour=0.4)
    return answer


def test_what_a_round_would_do_counts_nodes_that_go_now() -> None:
    assert proposals(round_of(whole_plan())) == {
        "SCALE_UP": Proposal(-1.0, 2, 0, 0),
        "SCALE_DOWN": Proposal(2.0, 0, 1, 1),
        "REPLACEMENT": Proposal(pytest.approx(0.6), 1, 1, 2),  # type: ignore[arg-type]
    }


def test_savings_and_costs_pass_with_time_as_long_as_they_are_proposed() -> None:
    advisory = Advisory()
    for now_s in range(0, 3600, 10):
        advisory.add(now_s, round_of(whole_plan()))
    advisory.add(3600, round_of(plan_of()))
    advisory.add(3610, round_of(plan_of()))
    assert advisory.saved == pytest.approx({"SCALE_UP": 0.0, "SCALE_DOWN": 2.0, "REPLACEMENT": 0.6})
    assert advisory.cost == pytest.approx({"SCALE_UP": 1.0, "SCALE_DOWN": 0.0, "REPLACEMENT": 0.0})
    document = advisory.document()
    assert (document["wouldHaveSaved"], document["wouldHaveCost"]) == (2.6, 1.0)
    assert document["wouldDo"]["REPLACEMENT"]["leavingNodes"] == 0
    assert advisory.sentence().startswith("in 1.00 h it would have saved 2.60 and spent 1.00 more")


def test_a_long_pause_between_rounds_counts_only_in_part() -> None:
    advisory = Advisory()
    advisory.add(0, round_of(whole_plan()))
    advisory.add(36_000, round_of(plan_of()))
    assert advisory.saved["SCALE_DOWN"] == pytest.approx(2.0 * 300 / 3600)


def test_nothing_is_ordered_in_a_dry_run_that_asks_for_replacements() -> None:
    setup: Setup = replacing_setup(whole_plan(), replace=True, dry_run=True)
    setup.run()
    actuator = setup.actuator
    assert [actuator.replacing, actuator.orders, actuator.grown, actuator.tainted] == [[], [], [], []]


def test_the_documented_metrics_are_there_by_decision() -> None:
    reader = InMemoryMetricReader()
    advisory = Advisory(MeterProvider(metric_readers=[reader]).get_meter("test"))
    advisory.add(0, round_of(whole_plan()))
    advisory.add(60, round_of(whole_plan()))
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        metric.name: {str(point.attributes["decision"]): point.value for point in metric.data.data_points}  # type: ignore[index,union-attr]
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert found["trimtab_would_have_saved"]["SCALE_DOWN"] == pytest.approx(2.0 / 60)
    assert found["trimtab_would_have_cost"]["SCALE_UP"] == pytest.approx(1.0 / 60)
    assert found["trimtab_would_save_per_hour"]["REPLACEMENT"] == pytest.approx(0.6)
    assert found["trimtab_would_add_nodes"] == {"SCALE_UP": 2, "SCALE_DOWN": 0, "REPLACEMENT": 1}
    assert found["trimtab_would_remove_nodes"] == {"SCALE_UP": 0, "SCALE_DOWN": 1, "REPLACEMENT": 1}
