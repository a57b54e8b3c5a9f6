"""What an answer says once: nodes and money of the plan, and what becomes of each node.

The plans are those of all decisions together, so the certificate of whole plans is taken of them, too: what each
decision assumes holds for all of them.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, node_group, snapshot_of
from tests.builders.scale_up import NOW_S
from tests.builders.whole_requests import asked
from tests.certificates import whole_plan
from tests.reference.decisions import summary as twin
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.prices import HOURS_A_MONTH
from trimtab.v1 import plan_pb2, snapshot_pb2

Decision, Fate = plan_pb2.Decision, plan_pb2.NodeFate
ENDED = (snapshot_pb2.PodPhase.SUCCEEDED, snapshot_pb2.PodPhase.FAILED)


def pods_on_nodes(snapshot: snapshot_pb2.ClusterSnapshot) -> int:
    pods, names = snapshot.pods, {one.name for one in snapshot.nodes}
    nodes = np.frombuffer(pods.node, "<i4").tolist()
    return sum(
        snapshot.strings[at] in names and phase not in ENDED for at, phase in zip(nodes, pods.phase, strict=True)
    )


@given(st.integers(0, 2**48), st.integers(0, 3))
@examples(60, 1)
def test_plans_of_all_decisions_fit_together_and_the_summary_is_what_they_add_up_to(seed: int, unpriced: int) -> None:
    message, request = asked(seed)
    for one in [*message.nodes][:unpriced]:
        one.price_per_hour = float(unpriced)
    for group in [*message.node_groups][:unpriced]:
        group.ClearField("price_per_hour")
    answer = plan(canonicalize(message), request, None, Work())
    assert whole_plan.offences(message, request.settings, answer, NOW_S) == []
    found, expected = answer.summary, list(twin.figures(message, answer, pods_on_nodes(message)))
    moments = [found.now, *(one.after for one in found.decisions), found.after]
    assert [one.decision for one in found.decisions] == [one.code for one in twin.steps(answer)]
    for moment, figures in zip(moments, [*expected, expected[-1]], strict=True):
        numbers = moment.node_count, moment.pod_count, moment.unpriced_node_count
        assert numbers == (figures.nodes, figures.pods, figures.unpriced)
        assert moment.price_per_hour == pytest.approx(figures.price, rel=1e-9, abs=1e-9)
        assert moment.price_per_month == moment.price_per_hour * HOURS_A_MONTH
    saved, bought = found.saved_per_hour, found.bought_per_hour
    assert found.now.price_per_hour - saved + bought == pytest.approx(found.after.price_per_hour, rel=1e-9, abs=1e-9)
    assert found.saved_per_month == pytest.approx((saved - bought) * HOURS_A_MONTH)
    if found.HasField("most_saved_per_hour") and not unpriced:
        assert saved - bought <= found.most_saved_per_hour + 1e-6
    _check_verdicts(message, answer)


def _check_verdicts(message: snapshot_pb2.ClusterSnapshot, answer: plan_pb2.PlanResponse) -> None:
    """Check that each node has one verdict, and that it says what the decisions say."""
    assert [one.node for one in answer.nodes] == sorted(one.name for one in message.nodes)
    down, of_node = answer.scale_down, {one.name: one for one in message.nodes}
    by_fate: dict[int, set[str]] = {fate: set() for fate in Fate.Code.values()}
    for one in answer.nodes:
        by_fate[one.fate].add(one.node)
        price = twin.node_price(message, of_node[one.node])
        assert (one.price_per_hour if one.HasField("price_per_hour") else None) == price
        assert one.node_group == of_node[one.node].node_group
        assert bool(one.why) == bool(one.reason)
    unneeded = {one.node for one in down.unneeded}
    assert by_fate[Fate.GOES_NOW] == {*down.delete_empty, *down.drain}
    assert by_fate[Fate.GOES_NOW] | by_fate[Fate.GOES_LATER] == unneeded
    waves = {one.node: at for at, wave in enumerate(answer.replacement.waves, 1) for one in wave.leaving}
    assert by_fate[Fate.REPLACED] == set(waves)
    assert not by_fate[Fate.UNSPECIFIED]
    new = {one.name for wave in answer.replacement.waves for one in wave.new_nodes}
    for one in answer.nodes:
        assert one.wave == waves.get(one.node, 1 if one.node in unneeded and one.wave <= 1 else one.wave)
        assert (one.wave > 0) == (one.node in unneeded or one.node in waves)
        assert bool(one.reason) == (one.fate != Fate.GOES_NOW)
        assert new.issuperset(one.replaced_by)


def answered(*objects: Json, decisions: Sequence[int] = (Decision.SCALE_DOWN,)) -> plan_pb2.PlanResponse:
    request = plan_pb2.PlanRequest(decisions=decisions)  # type: ignore[arg-type]
    request.now.seconds = NOW_S
    return plan(canonicalize(snapshot_of(*objects)), request, None, Work())


def test_a_node_that_is_being_deleted_leaves_and_is_in_no_sum() -> None:
    taint = f"ToBeDeletedByClusterAutoscaler={NOW_S}:NoSchedule"
    group = node_group("g", nodes=["n1", "n2"], target=2, price=2.0)
    answer = answered(node("n1", taints=[taint]), node("n2"), group)
    assert [(one.node, one.fate) for one in answer.nodes] == [("n1", Fate.LEAVING), ("n2", Fate.GOES_LATER)]
    later = answer.nodes[1]
    assert (later.wave, later.goes_at.seconds, later.since.seconds) == (1, NOW_S + 600, NOW_S)
    summary = answer.summary
    assert (summary.leaving_node_count, summary.now.node_count, summary.now.price_per_hour) == (1, 1, 2.0)
    assert (summary.saved_per_hour, summary.after.node_count) == (2.0, 0)


def test_without_any_price_assumed_ones_are_shown_and_decide_nothing() -> None:
    group = node_group("g", nodes=["n1", "n2"], target=2)
    answer = answered(node("n1", cpu="4", memory="16Gi"), node("n2", cpu="2", memory="8Gi"), group)
    assert answer.summary.assumption == "assumed: 0.03 a core and 0.004 a GiB of memory an hour"
    assert [round(one.price_per_hour, 6) for one in answer.nodes] == [0.184, 0.092]
    assert answer.summary.now.unpriced_node_count == 0
    (figures,) = answer.summary.decisions
    assert figures.objective == plan_pb2.Objective.COUNT
    priced = answered(node("n1"), node("n2"), node_group("g", nodes=["n1"], target=1, price=1.0))
    assert (priced.summary.assumption, priced.summary.now.unpriced_node_count) == ("", 1)
    assert [one.HasField("price_per_hour") for one in priced.nodes] == [True, False]


def test_decisions_on_no_nodes_give_no_verdicts() -> None:
    answer = answered(node("n1"), decisions=(Decision.SCALE_UP, Decision.POD_COSTS))
    assert not answer.nodes
    assert answer.summary.now.node_count == answer.summary.after.node_count == 1
