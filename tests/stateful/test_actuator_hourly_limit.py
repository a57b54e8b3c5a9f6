"""In no hour are more nodes deleted than the access policy allows, however often it is requested and whenever the
actuator dies.
"""

import random
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tests.builders.actuator import SETTINGS, Crash, Stage, small_cluster
from trimtab.actuator.node_groups.reconciler import NodeGroupReconciler
from trimtab.actuator.service.external.cloud_cache import DeletionRoom
from trimtab.actuator.service.external.orders import ExternalOrders, NodeToDelete
from trimtab.actuator.service.external.servicer import ExternalServicer
from trimtab.actuator.tracker.events import Event, TimeNoted
from trimtab.actuator.tracker.states import HOUR_MS, Retention
from trimtab.clusterautoscaler.externalgrpc import cloud_provider_pb2 as pb
from trimtab.common.kubernetes.names import HARD_TAINT_KEY
from trimtab.common.rpc.access_policy import DeletionRules
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, plan_pb2

NODES = [f"n{number}" for number in range(14)]


def guarded(**rules: object) -> Stage:
    made = DeletionRules.model_validate(rules)
    # Results expire quickly: the limit must not depend on them.
    settings = replace(SETTINGS, deletion_rules=lambda: made, retention=Retention(finished_s=1, evictions_s=1))
    return Stage(small_cluster(4, spare=10), settings)


def busiest_hour(stage: Stage) -> int:
    """Return the largest number of nodes for which the cloud was called within an hour."""
    times_ms = [entry.time_ms for entry in stage.cluster.journal() if entry.what == "deleted"]
    return max((sum(begin <= one < begin + HOUR_MS for one in times_ms) for begin in times_ms), default=0)


def ask_for_all(stage: Stage, request_id: str) -> set[str]:
    """Request the deletion of every remaining node, drained or not; return the reasons of refusals."""
    left = [name for name in NODES if name in stage.cluster.state.nodes]
    spare = {f"n{number}" for number in range(4, 14)}
    for drain in (False, True):
        nodes = [name for name in left if (name not in spare) == drain]
        if nodes:
            answers = stage.start(stage.request(f"{request_id}-{drain}", *nodes, drain=drain))
            reasons = {reason for _, reason in answers.values()}
    return reasons


def test_repeated_requests_for_all_nodes_remove_a_few_per_hour() -> None:
    stage = guarded(maxNodesPerHour=3)
    reasons: set[str] = set()
    for number in range(16):
        reasons |= ask_for_all(stage, f"r{number}")
        stage.run_for(900)
    assert busiest_hour(stage) == 3
    assert "HOURLY_LIMIT_REACHED" in reasons
    assert len(stage.noted("deleted")) == 12, "the limit lets go on, hour by hour"


@pytest.mark.parametrize("seed", range(4))
def test_dying_at_any_point_removes_no_more_nodes(seed: int) -> None:
    chance = random.Random(seed)
    stage = guarded(maxSharePerHour=0.2)
    deaths = 0
    for number in range(40):
        try:
            stage.boot(die_at=chance.randint(1, 60))
            ask_for_all(stage, f"r{number}")
            stage.run_for(chance.choice((0.5, 5, 60, 900)))
        except Crash:
            deaths += 1
    assert deaths > 10
    stage.boot()
    stage.run()
    assert 1 <= busiest_hour(stage) <= 2, "a fifth of at most 14 nodes"
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def test_a_policy_that_changes_holds_for_the_next_request() -> None:
    rules = DeletionRules.model_validate({"maxNodesPerHour": 0})
    settings = replace(SETTINGS, deletion_rules=lambda: rules)
    stage = Stage(small_cluster(), settings)
    assert stage.start(stage.request("r", "n6", drain=False)) == {"n6": (False, "HOURLY_LIMIT_REACHED")}
    rules = DeletionRules.model_validate({"maxNodesPerHour": 1})
    assert stage.start(stage.request("s", "n6", drain=False)) == {"n6": (True, "UNSPECIFIED")}


def test_a_cluster_autoscaler_that_deletes_through_us_is_held_to_the_same_hour() -> None:
    stage = guarded(maxNodesPerHour=3)
    actuator = stage.actuator
    orders = ExternalOrders(actuator.processor, stage.cluster, stage.cloud, limits=actuator.settings.present_limits)
    assert stage.start(stage.request("ours", "n4", drain=False)) == {"n4": (True, "UNSPECIFIED")}
    orders.begin_delete("g", [NodeToDelete("n5", "test://n5")])
    with pytest.raises(ServiceError, match="maxNodesPerHour 3") as caught:
        orders.begin_delete("g", [NodeToDelete("n6", "test://n6"), NodeToDelete("n7", "test://n7")])
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    orders.begin_delete("g", [NodeToDelete("n6", "test://n6")])
    stage.run()
    assert stage.start(stage.request("more", "n7", drain=False)) == {"n7": (False, "HOURLY_LIMIT_REACHED")}
    stage.boot()
    stage.run_for(3601)
    assert stage.start(stage.request("later", "n7", drain=False)) == {"n7": (True, "UNSPECIFIED")}


def reconciler_of(stage: Stage) -> NodeGroupReconciler:
    """Return what counts the nodes, after its first look."""
    actuator = stage.actuator
    reconciler = NodeGroupReconciler(
        actuator.processor, stage.cluster, stage.cloud, actuator.settings.groups, actuator.settings.present_limits
    )
    reconciler.step()
    return reconciler


def grow(stage: Stage, by: int) -> None:
    size = stage.target("g")
    with stage.cluster.transaction() as state:
        state.groups["g"]["spec"]["maxSize"] = size + by
    split = plan_pb2.ScaleUpSplit(node_group="g", current_size=size, new_size=size + by)
    stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id=f"grow-{size}", splits=[split]))
    stage.run_for(60)


def test_a_growth_does_not_raise_the_share_before_its_nodes_have_been_there_for_an_hour() -> None:
    stage = guarded(maxSharePerHour=0.2)
    reconciler = reconciler_of(stage)
    grow(stage, 40)
    reconciler.step()
    assert len(stage.cluster.state.nodes) == 54
    for number in range(3):
        ask_for_all(stage, f"r{number}")
        stage.run_for(600)
        reconciler.step()
    assert len(stage.noted("deleted")) == 2, "a fifth of the 14 nodes of before"
    stage.run_for(3_600)
    ask_for_all(stage, "later")
    stage.run()
    assert busiest_hour(stage) == 10, "a fifth of 52"


@pytest.mark.parametrize("step_s", [2 * 3600.0, -2 * 3600.0], ids=["ahead", "back"])
@pytest.mark.parametrize("is_tainted", [False, True], ids=["idle", "with a drain to resume"])
def test_setting_the_clock_while_no_actuator_runs_does_not_end_the_hour(step_s: float, is_tainted: bool) -> None:
    stage = guarded(maxNodesPerHour=3)
    drains = ["n0"] if is_tainted else []
    assert stage.start(stage.request("r", "n4", "n5", drain=False))["n4"] == (True, "UNSPECIFIED")
    stage.run_for(1_200)
    if drains:
        stage.start(stage.request("d", *drains))
        with stage.looking():
            stage.cluster.remove_taint("n0", HARD_TAINT_KEY)
    stage.actuator.processor.note_time()
    stage.time.stop()
    stage.skew_s = step_s
    stage.boot()
    stage.run_for(1_200)
    left = {f"n{number}" for number in range(6, 9)}
    accepted = [name for name, (ok, _) in stage.start(stage.request("s", *left, drain=False)).items() if ok]
    assert len(accepted) == 1 - len(drains)
    stage.run_for(1_300)
    later = stage.start(stage.request("t", *sorted(left - set(accepted)), drain=False))
    assert sum(ok for ok, _ in later.values()) == 2


@pytest.mark.parametrize("grows", [False, True], ids=["a deletion", "a growth"])
def test_time_is_noted_each_minute_while_something_of_the_last_hour_counts_and_not_after(grows: bool) -> None:
    stage = guarded(maxNodesPerHour=3)
    if grows:
        reconciler = reconciler_of(stage)
        grow(stage, 2)
        reconciler.step()
    else:
        stage.start(stage.request("r", "n4", drain=False))
        stage.run()
    events: list[Event] = []
    processor = stage.actuator.processor
    processor.listeners.append(lambda event, _tracker, _now_ms: events.append(event))
    for _ in range(1_000):
        stage.run_for(10)
        processor.note_time()
    assert 55 <= sum(isinstance(event, TimeNoted) for event in events) <= 61


def test_a_cluster_autoscaler_learns_before_the_drain_how_many_nodes_may_still_be_deleted() -> None:
    stage = guarded(maxNodesPerHour=3)
    actuator = stage.actuator
    room = DeletionRoom(actuator.processor, actuator.settings.present_limits)
    orders = ExternalOrders(actuator.processor, stage.cluster, stage.cloud, limits=actuator.settings.present_limits)

    def minimum() -> int:
        with stage.looking():
            return room.bounded({one.id: one for one in stage.cloud.node_groups()})["g"].min_size

    assert minimum() == 14 - 3
    orders.begin_delete("g", [NodeToDelete("n4", "test://n4"), NodeToDelete("n5", "test://n5")])
    stage.run()
    assert minimum() == 12 - 1
    orders.begin_delete("g", [NodeToDelete("n6", "test://n6")])
    stage.run()
    assert minimum() == stage.target("g") == 11, "nothing may be drained now"
    servicer: Any = ExternalServicer(actuator)
    (listed,) = servicer.NodeGroups(pb.NodeGroupsRequest(), None).node_groups
    node = pb.ExternalGrpcNode(provider_id="test://n0", name="n0")
    found = servicer.NodeGroupForNode(pb.NodeGroupForNodeRequest(node=node), None).node_group
    assert (listed.min_size, found.min_size) == (11, 11)
    stage.run_for(3_601)
    assert minimum() == 11 - 3


def test_without_a_limit_a_cluster_autoscaler_gets_the_minimums_of_the_cloud() -> None:
    stage = Stage(small_cluster())
    groups = {one.id: one for one in stage.cloud.node_groups()}
    assert DeletionRoom(stage.actuator.processor, stage.actuator.settings.present_limits).bounded(groups) is groups
