"""A wrong size of a node group, from a cloud for instance, neither stops the planner nor the other groups."""

import time
from itertools import pairwise

import pytest
from opentelemetry.metrics import NoOpMeterProvider

from trimtab.common.rpc.errors import Reason, ServiceError
from trimtab.places import on_upcoming
from trimtab.planner.service.request_handler import Caller, RequestHandler
from trimtab.planner.service.request_limits import Bounds, RequestMemory
from trimtab.planner.service.warm_up import NOW_S, growing_cluster
from trimtab.v1 import plan_pb2
from trimtab.v1 import snapshot_pb2 as pb

HANDLER = RequestHandler(NoOpMeterProvider().get_meter("test"), 0, log_decisions=False)
WRONG = "like it"
"""The node group with a wrong size."""


def plan(cluster: pb.ClusterSnapshot, caller: Caller, *, limited: bool = False) -> plan_pb2.PlanResponse:
    """Ask for growth and shrinking."""
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN])
    request.now.seconds = NOW_S
    if limited:
        request.settings.planner.limits.add(resource="memory", maximum=1 << 62)
    return HANDLER.plan(request, cluster.SerializeToString(), caller)


def wrong(target_size: int, daemonset_pods: int = 1, max_size: int = 5) -> pb.ClusterSnapshot:
    """Return a cluster with a group of this size, and one that can grow for the pods that wait."""
    cluster = growing_cluster()
    group = next(one for one in cluster.node_groups if one.id == WRONG)
    group.target_size, group.max_size = target_size, max_size
    del group.template.daemonset_pods[:]
    for _ in range(daemonset_pods):
        group.template.daemonset_pods.add(namespace="default", spec=0)
    return cluster


@pytest.mark.parametrize("target_size", [300_000, 2**31 - 1])
def test_a_group_with_a_wrong_size_gets_a_note_and_the_others_grow(target_size: int) -> None:
    cluster = wrong(target_size)
    assert cluster.ByteSize() < 1_200
    answer = plan(cluster, Caller())
    (note,) = answer.summary.notes
    assert note.startswith(f"node group {WRONG}: none of its {target_size} upcoming nodes, with 1 DaemonSet pods each")
    assert f"target_size is {target_size}: check the size that the cloud reports" in note
    assert [(split.node_group, split.new_size) for split in answer.scale_up.splits] == [("group", 4)]
    assert answer.scale_down.evaluated > 0


def test_upcoming_nodes_count_with_their_daemonset_pods() -> None:
    assert plan(wrong(100), Caller()).summary.notes == []
    (note,) = plan(wrong(1_000, daemonset_pods=6_000), Caller()).summary.notes
    assert "1000 upcoming nodes, with 6000 DaemonSet pods each (template.daemonset_pods)" in note


def test_one_wrong_size_leaves_out_no_upcoming_nodes_of_other_groups() -> None:
    cluster = wrong(249_990, daemonset_pods=0, max_size=2**31 - 1)
    other = cluster.node_groups.add()
    other.CopyFrom(next(one for one in cluster.node_groups if one.id == WRONG))
    other.id, other.target_size = "a third", 20
    answer = plan(cluster, Caller())
    (note,) = answer.summary.notes
    assert note.startswith(f"node group {WRONG}: none of its 249990 upcoming nodes counts")
    assert sorted(on_upcoming(answer.scale_up).values()) == ["a third", "a third"]


def test_a_wrong_size_does_not_turn_a_limit_into_none() -> None:
    cluster = wrong(2**31 - 1, max_size=2**31 - 1)
    for group in cluster.node_groups:
        group.template.capacity.extend([8000, 1 << 53, 110])
    answer = plan(cluster, Caller(), limited=True)
    assert not answer.scale_up.splits
    assert answer.scale_up.unschedulable


def test_memory_is_asked_for_before_upcoming_nodes_are_named() -> None:
    with pytest.raises(ServiceError) as caught, RequestMemory(64 << 20).share() as reserve:
        plan(wrong(200_000, daemonset_pods=0), Caller(reserve=reserve))
    assert caught.value.reason == Reason.MEMORY_EXCEEDED
    assert "upcoming and new nodes of node groups" in str(caught.value)


@pytest.mark.ci
@pytest.mark.parametrize(("target_size", "daemonset_pods"), [(200_000, 0), (240, 20_000)])
def test_the_deadline_holds_while_nodes_are_laid_out(target_size: int, daemonset_pods: int) -> None:
    cluster = wrong(target_size, daemonset_pods)
    checks: list[float] = []

    def is_wanted() -> bool:
        checks.append(time.thread_time())
        return True

    plan(cluster, Caller(bounds=Bounds(is_wanted=is_wanted)))
    between = max(later - earlier for earlier, later in pairwise(checks))
    assert between < 1, "seconds of processor time between two checks of the deadline"
