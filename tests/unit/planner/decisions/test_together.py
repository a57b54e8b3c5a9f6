"""Slack, scale-up and scale-down of one request: their assumptions hold for all of them together."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders.examples import examples
from tests.builders.kubernetes import Json, node, node_group, pod, replica_set, snapshot_of
from tests.builders.random_growth import growing_cluster, growth_settings
from tests.builders.scale_up import NOW_S
from tests.builders.snapshots import write
from tests.certificates import whole_plan
from trimtab.clients.verdicts import staying
from trimtab.places import on_existing
from trimtab.planner.decisions.plan import plan
from trimtab.planner.model.values import Owner
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb
from trimtab.v1.reason_pb2 import UnremovableReason

Decision = plan_pb2.Decision
ALL = (Decision.SLACK, Decision.SCALE_UP, Decision.SCALE_DOWN)
OWNER = Owner("rs", "ReplicaSet", "web", "default", 99, 99, "apps/v1")


def asked(seed: int) -> tuple[pb.ClusterSnapshot, plan_pb2.PlanRequest]:
    """Return a random cluster with only movable pods, and a request without timers."""
    cluster = growing_cluster(seed)
    pods = {key: one._replace(owner="rs") for key, one in cluster.pods.items()}
    message = write(replace(cluster, pods=pods, owners={"rs": OWNER}))
    request = plan_pb2.PlanRequest(decisions=ALL, settings=growth_settings(seed), seed=seed % 97)
    request.now.seconds = NOW_S
    slack, down = request.settings.slack, request.settings.scale_down
    slack.extra_capacity_min_rate = (0.0, 0.1, 0.3, 0.6)[seed % 4]
    slack.granularity = (1, 2, 5)[seed // 4 % 3]
    down.unneeded_time.seconds = 0
    down.utilization_threshold = 1.0
    return message, request


@given(st.integers(0, 2**48))
@example(5117)
@examples(150)
def test_placed_pods_placeholders_and_moved_pods_fit_at_the_same_time(seed: int) -> None:
    message, request = asked(seed)
    answer = plan(canonicalize(message), request, None, Work())
    assert whole_plan.offences(message, request.settings, answer, NOW_S) == []


WEB = replica_set("web", 9)
TWO_EMPTY: list[Json] = [
    node("a", cpu="2"), node("b", cpu="8"), node_group("g", nodes=["a"]), WEB, pod("waits", "2", owner=WEB),
]  # fmt: skip


def answer_to(*decisions: "Decision.Code.ValueType") -> plan_pb2.PlanResponse:
    request = plan_pb2.PlanRequest(decisions=decisions)
    request.now.seconds = NOW_S
    request.settings.scale_down.unneeded_time.seconds = 0
    return plan(canonicalize(snapshot_of(TWO_EMPTY)), request, None, Work())


def test_a_node_that_scale_up_counts_on_for_a_pending_pod_stays_though_the_pod_would_fit_elsewhere() -> None:
    answer = answer_to(Decision.SCALE_UP, Decision.SCALE_DOWN)
    assert on_existing(answer.scale_up) == {"default/waits": "a"}
    assert not answer.scale_down.unneeded
    stays = {one.node: one.reason for one in staying(answer)}
    assert stays["a"] == UnremovableReason.RESERVED_FOR_PENDING_PODS


def test_without_scale_up_in_the_request_the_pending_pod_may_go_elsewhere() -> None:
    answer = answer_to(Decision.SCALE_DOWN)
    assert [one.node for one in answer.scale_down.unneeded] == ["a"]
