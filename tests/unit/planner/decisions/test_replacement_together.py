"""Slack, scale-up, scale-down and replacement of one request: what each assumes holds for all of them together."""

import pytest
from google.protobuf.json_format import ParseDict

from tests.builders.kubernetes import Json, node, node_group, snapshot_of
from tests.builders.replacement import NOW_S, WEB, group, web
from tests.builders.tiers import nightly_but
from tests.builders.whole_requests import asked
from tests.certificates import whole_plan
from trimtab.clients.verdicts import not_replaced
from trimtab.places import destinations, moves_by_node
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, reason_pb2

Decision = plan_pb2.Decision
ALL = (Decision.SLACK, Decision.SCALE_UP, Decision.SCALE_DOWN, Decision.REPLACEMENT)


def both(settings: Json, *objects: Json) -> plan_pb2.PlanResponse:
    """Return a plan of scale-down, for half-empty nodes, and replacement, once the certificate has verified it."""
    message = snapshot_of(*objects)
    request = plan_pb2.PlanRequest(decisions=[Decision.SCALE_DOWN, Decision.REPLACEMENT])
    request.now.seconds = NOW_S
    request.settings.scale_down.unneeded_time.seconds = 0
    ParseDict({"replacement": settings}, request.settings)
    answer = plan(canonicalize(message), request, None, Work())
    assert whole_plan.offences(message, request.settings, answer, NOW_S) == []
    return answer


def halves(*others: Json) -> list[Json]:
    """Return two large nodes that are hardly used: a small one would hold the pods of both."""
    pods = [web("a", "l1", "1"), web("b", "l2", "2"), *others]
    return [WEB, *group("large", "16", "64Gi", 1.0, ["l1", "l2"]), *group("small", "4", "16Gi", 0.3), *pods]


def leaving(answer: plan_pb2.PlanResponse) -> list[dict[str, list[str]]]:
    """Return the pods that move from each node that leaves, wave by wave."""
    return [
        {node: sorted(moves) for node, moves in moves_by_node(wave.places).items()} for wave in answer.replacement.waves
    ]


def test_a_node_that_takes_pods_of_scale_down_is_replaced_in_the_same_answer_and_they_move_with_it() -> None:
    answer = both({}, *halves())
    (gone,) = answer.scale_down.unneeded
    (taker,) = {"l1", "l2"} - {gone.node}
    assert set(destinations(answer.scale_down.places).values()) == {taker}
    assert leaving(answer) == [{taker: ["default/a", "default/b"]}]
    assert answer.summary.after.price_per_hour == pytest.approx(0.3)


def test_nodes_that_take_pods_of_scale_down_stay_where_young_pods_keep_nodes() -> None:
    answer = both({"consolidateAfter": "60s"}, *halves())
    assert leaving(answer) == []
    (kept,) = (one.not_replaced for one in not_replaced(answer))
    assert kept.reason == reason_pb2.ReplacementLimit.TOO_YOUNG


def test_nodes_that_take_pods_of_scale_down_leave_after_a_first_wave_that_can_begin_at_once() -> None:
    other = [*group("medium", "8", "32Gi", 0.7, ["m1"]), web("full", "m1", "7500m", node_selector={"pool": "m"})]
    other = [one | {"metadata": one["metadata"] | {"labels": {"pool": "m"}}} if one["kind"] == "Node" else one
             for one in other]  # fmt: skip
    cheap = node("t", "8", "32Gi", labels={"pool": "m"})
    answer = both({}, *halves(), *other, node_group("cheap", 0, 9, target=0, price=0.35, template=cheap))
    first, second = leaving(answer)
    assert list(first) == ["m1"]
    assert set(second) <= {"l1", "l2"}


@pytest.mark.parametrize("seed", nightly_but([21], [0, 21]))
def test_nodes_of_scale_up_and_of_a_replacement_together_stay_within_the_maximum_of_their_group(seed: int) -> None:
    """In both, groups that scale-up has grown would be cheap for a replacement, which once did not count its nodes."""
    message, request = asked(seed)
    answer = plan(canonicalize(message), request, None, Work())
    assert answer.scale_up.splits
    assert answer.replacement.waves
    assert whole_plan.offences(message, request.settings, answer, NOW_S) == []
