"""The actuator dies at every store write and every call while it lowers a target size: it is lowered once, and no
instance that runs ends.

In the suite it dies at a third of them, in the nightly tier (`TRIMTAB_ALL_DEATHS=1`) at each.
"""

from dataclasses import replace

import pytest

from tests.builders.actuator import DELAYS, SETTINGS, START_S, Crash, Stage, small_cluster
from tests.builders.tiers import ALL_DEATHS
from trimtab.actuator.cloud.provider import CloudError, CloudRefusedError
from trimtab.clients.simulation.cluster.faults import Fault
from trimtab.common.rpc.errors import ServiceError
from trimtab.v1 import actuator_pb2, plan_pb2, reason_pb2, snapshot_pb2

GROWTH = actuator_pb2.ScaleUpRequest(
    request_id="round-1", splits=[plan_pb2.ScaleUpSplit(node_group="g", current_size=8, new_size=11)]
)


def reduction(current: int = 11, new: int = 9, request_id: str = "round-1") -> actuator_pb2.LowerTargetsRequest:
    one = actuator_pb2.TargetReduction(node_group="g", current_size=current, new_size=new)
    return actuator_pb2.LowerTargetsRequest(request_id=request_id, reductions=[one])


def stage_with_upcoming() -> Stage:
    """Return a stage whose group has requested three nodes, which take hours to start."""
    stage = Stage(small_cluster(), delays=replace(DELAYS, node_start_s=10_000))
    stage.actuator.growths.begin(GROWTH)
    stage.run_for(5)
    assert stage.target("g") == 11
    return stage


def lower(stage: Stage, request: actuator_pb2.LowerTargetsRequest) -> tuple[bool, str]:
    """Make a request; return the answer."""
    record = stage.actuator.growths.begin_lowering(request)
    while (answers := stage.actuator.growths.answers(record)) is None:
        assert stage.time.step(), "never answered"
    return answers[0].accepted, reason_pb2.GrowthReason.Code.Name(answers[0].reason)  # type: ignore[arg-type]


def lowered(die_at: int | None) -> Stage:
    stage = stage_with_upcoming()
    for moment in (die_at, None):
        try:
            stage.boot(moment)
            assert lower(stage, reduction()) == (True, "UNSPECIFIED")
        except Crash:
            continue
        break
    return stage


def test_a_target_is_lowered_once_whenever_the_process_dies() -> None:
    count = lowered(None).breaker.count
    assert count >= 6
    for moment in range(1, count + 1, 1 if ALL_DEATHS else 3):
        stage = lowered(moment)
        left = [one for one in stage.cluster.state.instances_of("g") if not one.gone_due_ms]
        assert (stage.target("g"), len(left)) == (9, 9), f"moment {moment}"
        stage.boot()
        assert lower(stage, reduction()) == (True, "UNSPECIFIED"), "a repeated request gets the first answer"
        assert stage.target("g") == 9
        stage.actuator.processor.read(lambda tracker, _: tracker.check_invariants())


def test_a_scale_up_and_a_reduction_may_have_the_same_request_id() -> None:
    stage = stage_with_upcoming()
    assert lower(stage, reduction()) == (True, "UNSPECIFIED")
    answers = stage.actuator.growths.answers(GROWTH.request_id)
    assert answers is not None
    assert answers[0].accepted
    with pytest.raises(ServiceError, match="was used for another LowerTargets"):
        stage.actuator.growths.begin_lowering(reduction(new=8))


def test_a_reduction_is_no_scale_up_and_its_refusal_backs_no_group_off() -> None:
    stage = stage_with_upcoming()
    stage.run_for(100)
    stage.cluster.faults.add(Fault("decrease_target", error=CloudRefusedError("no"), times=1))
    assert lower(stage, reduction(request_id="refused")) == (False, "REFUSED")
    assert lower(stage, reduction(request_id="accepted")) == (True, "UNSPECIFIED")
    (group,) = stage.status().node_groups
    assert group.last_scale_up_time.seconds < START_S + 10
    assert group.health == snapshot_pb2.NodeGroupHealth.UNSPECIFIED


def test_a_cloud_that_does_not_answer_is_asked_again_until_the_time_is_up() -> None:
    stage = stage_with_upcoming()
    stage.cluster.faults.add(Fault("decrease_target", error=CloudError("throttled"), times=3))
    assert lower(stage, reduction()) == (True, "UNSPECIFIED")
    stage.cluster.faults.add(Fault("decrease_target", error=CloudError("throttled"), times=10_000))
    assert lower(stage, reduction(9, 8, "late")) == (False, "NOT_CARRIED_OUT")
    assert stage.target("g") == 9


def test_an_order_of_an_earlier_leader_lowers_nothing() -> None:
    stage = stage_with_upcoming()
    first = reduction(request_id="new")
    first.epoch = 5
    assert lower(stage, first) == (True, "UNSPECIFIED")
    late = reduction(9, 8, "old")
    late.epoch = 4
    with pytest.raises(ServiceError, match="no longer the leader"):
        stage.actuator.growths.begin_lowering(late)


def test_where_another_autoscaler_sets_the_sizes_no_target_is_lowered() -> None:
    settings = replace(SETTINGS, groups=replace(SETTINGS.groups, sized_by_caller=True))
    stage = Stage(small_cluster(), settings)
    with pytest.raises(ServiceError, match="serve-externalgrpc"):
        stage.actuator.growths.begin_lowering(reduction(8, 7))
