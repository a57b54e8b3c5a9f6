"""What Karpenter's annotations of pods and nodes mean for replacement, and that other decisions do not see them."""

import pytest
from google.protobuf.json_format import ParseDict

from tests.builders.kubernetes import Json, node, node_group, snapshot_of
from tests.builders.replacement import NOW_S, WEB, group, plan, web
from trimtab.clients.verdicts import not_replaced
from trimtab.planner.decisions.plan import plan as take_decisions
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2

LARGE, SMALL = ("16", "64Gi", 1.0), ("4", "16Gi", 0.2)
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
KARPENTER, AUTOSCALING = "karpenter.sh/disruption-cost", "node-autoscaling.kubernetes.io/disruption-cost"
DELETION = "controller.kubernetes.io/pod-deletion-cost"
HALF_AN_HOUR_AGO = "2027-01-15T07:30:00Z"


def cluster(annotations: dict[str, str], **more: object) -> list[Json]:
    """Return a large node with one pod, and a group of small ones."""
    one = web("p", "l0", annotations=annotations, **more)
    return [WEB, *group("large", *LARGE, ["l0"]), *group("small", *SMALL), one]


@pytest.mark.parametrize(
    ("text", "stays"),
    [("true", True), ("1h", True), ("30m1s", True), ("30m", False), ("29m", False), ("false", False), ("soon", False)],
)
def test_a_pod_keeps_its_node_for_ever_or_for_its_duration(text: str, stays: bool) -> None:
    found = plan(cluster({DO_NOT_DISRUPT: text}, created=HALF_AN_HOUR_AGO))
    assert found.kept == ({"l0": "DO_NOT_DISRUPT"} if stays else {})
    assert [one.not_replaced.blocking_pod for one in not_replaced(found.answer)] == (["default/p"] if stays else [])
    assert plan(cluster({DO_NOT_DISRUPT: text}), settings={"doNotDisrupt": False}).waves != []


def test_a_duration_counts_from_the_start_of_a_pod_if_it_is_known() -> None:
    status = {"phase": "Running", "startTime": "2027-01-15T07:50:00Z"}
    late = cluster({DO_NOT_DISRUPT: "15m"}, created=HALF_AN_HOUR_AGO, status=status)
    assert plan(late).kept == {"l0": "DO_NOT_DISRUPT"}


def test_pods_that_have_ended_or_are_being_deleted_keep_no_node() -> None:
    going = {"deletion": "2027-01-15T07:59:59Z"}
    for more in ({"phase": "Succeeded"}, going):
        rest = web("q", "l0")
        assert plan([*cluster({DO_NOT_DISRUPT: "true"}, **more), rest]).waves != []


@pytest.mark.parametrize(
    ("annotations", "stays"),
    [({DO_NOT_DISRUPT: "true"}, True), ({DO_NOT_DISRUPT: "1h"}, False),
     ({DO_NOT_DISRUPT: "true", "trimtab.dev/steered": DO_NOT_DISRUPT}, False)],
)  # fmt: skip
def test_an_annotated_node_stays_unless_trimtab_itself_has_annotated_it(annotations: Json, stays: bool) -> None:
    nodes = [node_group("large", nodes=["l0"], template=node("t", "16", "64Gi"), price=1.0, min_size=0, max_size=9),
             node("l0", "16", "64Gi", annotations=annotations)]  # fmt: skip
    found = plan([WEB, *nodes, *group("small", *SMALL), web("p", "l0")])
    assert found.kept == ({"l0": "DO_NOT_DISRUPT"} if stays else {})


@pytest.mark.parametrize(
    ("annotations", "cost"),
    [
        ({}, 1.0),
        ({DELETION: str(2**27)}, 2.0),
        ({KARPENTER: str(2**27)}, 2.0),
        ({AUTOSCALING: str(2**27)}, 2.0),
        ({KARPENTER: str(2**28), AUTOSCALING: str(2**27), DELETION: "7"}, 3.0),
        ({KARPENTER: "0", DELETION: str(2**27)}, 1.0),
        ({KARPENTER: "high", DELETION: str(2**27)}, 2.0),
        ({KARPENTER: "-1e300"}, 0.0),
        ({KARPENTER: "1e300"}, 10.0),
    ],
)
def test_what_an_eviction_costs(annotations: dict[str, str], cost: float) -> None:
    found = plan(cluster(annotations))
    assert found.decision.frontier[0].eviction_cost == pytest.approx(cost)


def test_scale_down_and_pod_costs_do_not_see_the_annotations() -> None:
    annotated = {DO_NOT_DISRUPT: "true", KARPENTER: "77", AUTOSCALING: "-5"}
    answers = []
    for annotations in ({}, annotated):
        free = [WEB, *group("large", *LARGE, ["l0", "l1"]), web("p", "l0", annotations=annotations), web("q", "l1")]
        request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.POD_COSTS])
        request.now.seconds = NOW_S
        ParseDict({"scaleDown": {"unneededTime": "0s"}, "podCosts": {}}, request.settings)
        answer = take_decisions(canonicalize(snapshot_of(free)), request, None, Work())
        answers.append(answer.scale_down.SerializeToString() + answer.pod_costs.SerializeToString())
    assert answers[0] == answers[1]
