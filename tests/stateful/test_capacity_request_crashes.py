"""Loop and actuator die at every write and call while a request gets nodes and conditions: nothing is ordered or booked
twice, nothing is forgotten.

Each life plans with the real planner on what the cluster, the cloud and the object say then; nothing else survives.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.builders.actuator import DELAYS, Crash, Stage, small_cluster
from tests.builders.capacity_requests import CONSUMES, pod_template, request
from tests.builders.kubernetes import Json, node, node_group, pod, snapshot_of
from trimtab.actuator.kube.cluster import KnownCapacityRequest
from trimtab.actuator.service.object_status import apply_capacity_status
from trimtab.actuator.service.settings import WriteLimits
from trimtab.clients.loop.capacity import ToldRequests, all_splits, target_reductions
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import actuator_pb2, plan_pb2

PODS = 3
MOMENTS = 30


def stage_with_request() -> Stage:
    stage = Stage(small_cluster())
    with stage.looking():
        stage.cluster.put_capacity_request(KnownCapacityRequest("default", "train", "uid-train", 1, "1", ()))
    return stage


def conditions(stage: Stage) -> list[Json]:
    with stage.looking():
        (one,) = stage.cluster.capacity_requests()
    return [dict(condition) for condition in one.conditions]


def answer_now(
    stage: Stage, started: int = 0, state: plan_pb2.PlanState | None = None, most: int = 20, wanted: int = PODS
) -> plan_pb2.PlanResponse:
    """Plan on what cluster, cloud and object say. The pods need nodes of their own: those that exist are full. most :
    maximum size of the group; wanted : pods of the request."""
    target = stage.target("g")
    nodes = [node(f"n{at}", "4") for at in range(8)]
    full = [pod(f"full-{at}", "4", node=f"n{at}") for at in range(8)]
    consumers = [pod(f"c-{at}", "3", node="there", annotations={CONSUMES: "train"}) for at in range(started)]
    group = node_group("g", 0, most, target=target, nodes=[f"n{at}" for at in range(8)], template=node("t", "4"))
    objects = [*nodes, *full, *consumers, group, pod_template("t", "3")]
    message = snapshot_of(objects, request("train", ("t", wanted), conditions=conditions(stage)))
    asked = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.CAPACITY_REQUESTS])
    asked.now.FromSeconds(int(stage.time.now_s))
    return plan(canonicalize(message), asked, state, Work())


def round_of(stage: Stage, number: int, **more: Any) -> plan_pb2.PlanResponse:
    """Make one round as the loop does: order, then tell."""
    answer = answer_now(stage, **more)
    splits = all_splits(answer)
    if splits:
        stage.actuator.growths.begin(actuator_pb2.ScaleUpRequest(request_id=f"round-{number}", splits=splits))
        stage.run()
    told = ToldRequests()
    due = told.due(answer.capacity_requests, set())
    if due:
        now = datetime.fromtimestamp(stage.time.now_s, UTC)
        apply_capacity_status(stage.cluster, due, WriteLimits(), now)
    return answer


def live(stage: Stage, die_at: int | None) -> bool:
    """Make two rounds, dying at a moment; then live again. Return whether it died."""
    died = False
    try:
        stage.boot(die_at)
        round_of(stage, 0)
        round_of(stage, 1)
    except Crash:
        died = True
    stage.boot()
    stage.run()
    for number in range(2, 4):
        round_of(stage, number)
    return died


@pytest.mark.parametrize("die_at", [None, *range(1, MOMENTS)])
def test_a_death_at_any_moment_neither_orders_nor_books_twice_and_forgets_nothing(die_at: int | None) -> None:
    stage = stage_with_request()
    before = stage.target("g")
    live(stage, die_at)
    assert stage.target("g") == before + PODS
    true = {one["type"]: one["reason"] for one in conditions(stage) if one["status"] == "True"}
    assert true == {"Accepted": "Accepted", "Provisioned": "CapacityIsProvisioned"}
    (one,) = answer_now(stage).capacity_requests.requests
    assert (one.outcome, one.booked_count) == (plan_pb2.CapacityRequestOutcome.BOOKED, PODS)
    stage.time.now_s += 601
    round_of(stage, 9)
    assert {one["type"] for one in conditions(stage)} == {"Accepted", "Provisioned", "BookingExpired"}
    assert not answer_now(stage).capacity_requests.requests


def useless_round(stage: Stage, state: plan_pb2.PlanState, number: int) -> None:
    """Make one round that gives up what was ordered for a request that can no longer be completed."""
    answer = answer_now(stage, state=state, most=stage.target("g"), wanted=PODS + 1)
    wanted = target_reductions(answer, stage.status())
    if wanted:
        request_ = actuator_pb2.LowerTargetsRequest(request_id=f"round-{number}", reductions=wanted)
        stage.actuator.growths.begin_lowering(request_)
        stage.run()


@pytest.mark.parametrize("die_at", [None, *range(1, 14)])
def test_a_death_at_any_moment_gives_up_what_is_to_come_once(die_at: int | None) -> None:
    stage = Stage(small_cluster(), delays=replace(DELAYS, node_start_s=10_000))
    with stage.looking():
        stage.cluster.put_capacity_request(KnownCapacityRequest("default", "train", "uid-train", 1, "1", ()))
    before = stage.target("g")
    state = round_of(stage, 0).state
    assert stage.target("g") == before + PODS
    try:
        stage.boot(die_at)
        useless_round(stage, state, 1)
    except Crash:
        pass
    stage.boot()
    stage.run()
    for number in (2, 3):
        useless_round(stage, state, number)
        assert stage.target("g") == before
    left = [one for one in stage.cluster.state.instances_of("g") if not one.gone_due_ms]
    assert len(left) == before
    stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def test_the_moments_reach_beyond_the_last_one_of_an_undisturbed_life() -> None:
    stage = stage_with_request()
    assert not live(stage, MOMENTS), stage.breaker.last
