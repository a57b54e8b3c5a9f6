"""A round requests the offered decisions, orders the planned actions, and does nothing else."""

import grpc
import pytest

from tests.builders.loop import Setup, failure, plan_of, unavailable
from trimtab.clients.loop.planner_session import PlannerSession
from trimtab.clients.loop.rounds import RoundRunner, RoundSettings
from trimtab.common.kubernetes.kinds.metadata import ObjectMeta
from trimtab.common.kubernetes.kinds.nodes import NodeGroup, NodeGroupSpec
from trimtab.common.rpc.errors import Reason, TrimtabError
from trimtab.common.watched.snapshot_update import SnapshotUpdate
from trimtab.v1 import actuator_pb2, plan_pb2


def test_what_is_planned_is_ordered_with_what_the_plan_assumed() -> None:
    setup = Setup(plan_of(empty=["n1"], drain=["n2"], waiting=["n3"]))
    setup.actuator.refused = {"n2"}
    done = setup.run()
    order = setup.actuator.orders[0]
    assert [(one.node, one.drain, one.assumption.pods_to_move_digest) for one in order.nodes] == [
        ("n1", False, "digest-n1"),
        ("n2", True, "digest-n2"),
    ]
    assert (order.request_id, order.plan_time.seconds, order.snapshot_version) == ("id", 100, "s1")
    assert setup.actuator.tainted == [["n3"]]
    assert done.accepted == ["n1"]
    assert "why" in done.refused["n2"]
    assert done.notes == ["a note"]


def test_no_order_follows_from_a_decision_that_failed() -> None:
    answer = plan_of()
    for code in (one for one in plan_pb2.Decision.Code.values() if one):
        name = plan_pb2.Decision.Code.Name(code)
        getattr(answer, name.lower()).CopyFrom(type(getattr(answer, name.lower()))(detail="why"))
        answer.diagnostics.decisions.add(decision=code, result=f"{name}_ERROR", failed=True)
    setup = Setup(answer, apply_pod_costs=True)
    done = setup.run()
    assert (setup.actuator.orders, setup.actuator.tainted) == ([], [])
    assert setup.actuator.ranked == []
    assert {f"{name} failed: why" for name in ("scale-down", "slack", "scale-up", "pod-costs")} <= set(done.notes)
    assert not done.answer.HasField("scale_down")


def test_the_actuators_status_goes_into_the_snapshot() -> None:
    setup = Setup()
    setup.actuator.status = actuator_pb2.ActuatorStatus(revision=7)
    setup.run()
    assert [one and one.revision for one in setup.cluster.statuses] == [7]


def test_prices_of_the_callers_own_take_the_place_of_what_the_cloud_says() -> None:
    def priced(groups: tuple[NodeGroup, ...], status: actuator_pb2.ActuatorStatus | None) -> tuple[NodeGroup, ...]:
        assert status is not None
        status.node_groups[0].price_per_hour = 0.25
        return (NodeGroup(ObjectMeta(name="declared"), NodeGroupSpec(price=0.5)), *groups)

    setup = Setup(complete_groups=priced)
    setup.actuator.status.node_groups.add(id="cloud", instance_count=4, price_per_hour=9.0)
    done = setup.run()
    assert done.prices == {"declared": 0.5, "cloud": 0.25}
    (seen,) = setup.cluster.statuses
    assert seen is not None
    assert seen.node_groups[0].price_per_hour == 0.25


@pytest.mark.parametrize("how", ["dry run", "not leading"])
def test_a_process_that_may_not_act_orders_nothing(how: str) -> None:
    setup = Setup(plan_of(empty=["n1"]), dry_run=how == "dry run")
    setup.leads = how != "not leading"
    setup.run()
    assert setup.actuator.orders == []
    assert setup.actuator.tainted == []


def test_only_offered_decisions_are_requested() -> None:
    wanted = (plan_pb2.Decision.SCALE_UP, plan_pb2.Decision.SCALE_DOWN)
    setup = Setup(decisions=wanted)
    setup.run()
    assert list(setup.planner.requests[0].decisions) == [plan_pb2.Decision.SCALE_DOWN]
    everything = Setup()
    everything.planner.offered = [plan_pb2.Decision.SCALE_DOWN, plan_pb2.Decision.POD_COSTS]
    everything.run()
    assert list(everything.planner.requests[0].decisions) == everything.planner.offered


def test_an_actuator_gets_only_orders_that_it_takes() -> None:
    setup = Setup(plan_of(empty=["n1"], waiting=["n2"]))
    setup.actuator.rpcs = ["GetStatus", "StartDeletion"]
    setup.run()
    assert len(setup.actuator.orders) == 1
    assert setup.actuator.tainted == []


def test_growth_is_ordered_before_removal() -> None:
    answer = plan_of(empty=["n1"])
    answer.scale_up.splits.add(node_group="g", current_size=1, new_size=2, max_size=3)
    setup = Setup(answer)
    done = setup.run()
    assert [one.node_group for one in setup.actuator.grown[0]] == ["g"]
    assert done.grown == ["g"]


def test_a_scale_up_that_the_cloud_refuses_is_reported_with_its_reason() -> None:
    answer = plan_of(empty=[])
    for group in ("g", "h"):
        answer.scale_up.splits.add(node_group=group, current_size=1, new_size=2, max_size=3)
    setup = Setup(answer)
    setup.actuator.refused = {"h"}
    done = setup.run()
    assert done.grown == ["g"]
    assert done.refused == {"h": "REFUSED why"}


def test_after_a_failed_round_the_whole_cluster_is_sent() -> None:
    setup = Setup()
    setup.run()
    setup.planner.failures.append(unavailable())
    with pytest.raises(TrimtabError):
        setup.run()
    assert not setup.run().was_delta
    assert setup.run().was_delta


def test_changes_that_a_busy_planner_refuses_go_again_as_changes() -> None:
    setup = Setup()
    busy = failure(Reason.OVERLOADED, grpc.StatusCode.RESOURCE_EXHAUSTED)
    setup.planner.failures.append(busy)
    with pytest.raises(TrimtabError):
        setup.run()
    # No snapshot has been accepted yet: there is no base for changes.
    assert not setup.run().was_delta
    for _ in range(2):
        setup.planner.failures.append(busy)
        with pytest.raises(TrimtabError):
            setup.run()
    assert setup.cluster.requeue_count == 2
    assert setup.run().was_delta
    assert [one.base_version for one in setup.planner.requests] == ["", "", "s2", "s2", "s2"]


class FullDisk:
    """A recorder that can write once."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, update: SnapshotUpdate, request: plan_pb2.PlanRequest, answer: plan_pb2.PlanResponse) -> None:
        self.count += 1
        if self.count > 1:
            raise OSError(28, "No space left on device")


def test_a_disk_that_is_full_ends_the_recording_and_not_the_loop() -> None:
    recorder = FullDisk()
    setup = Setup(plan_of(empty=["n1"]))
    setup.rounds = RoundRunner(setup.cluster, PlannerSession(setup.planner), setup.actuator, RoundSettings(), recorder)
    assert not any("recording" in note for note in setup.run().notes)
    assert any("No space left" in note for note in setup.run().notes)
    assert not any("recording" in note for note in setup.run().notes)
    assert (len(setup.actuator.orders), recorder.count) == (3, 2)


@pytest.mark.parametrize(
    ("ahead_s", "starts"), [(0.0, True), (29.0, True), (-29.0, True), (200.0, False), (-200.0, False)]
)
def test_with_clocks_that_differ_too_much_no_deletion_is_started(ahead_s: float, starts: bool) -> None:
    setup = Setup(plan_of(empty=["n1"], waiting=["n2"]))
    setup.actuator.status.time.FromNanoseconds(int((100 + ahead_s) * 1e9))
    done = setup.run()
    assert bool(setup.actuator.orders) == starts
    assert setup.actuator.tainted == [["n2"]], "soft taints do not depend on the time"
    assert done.clock_skew_s == pytest.approx(ahead_s, abs=5)
    said = [note for note in done.notes if "no deletion is started" in note]
    assert bool(said) == (not starts)
    assert all(("behind" if ahead_s < 0 else "ahead of") in note for note in said)


def ranked(*owners: str) -> plan_pb2.PlanResponse:
    """Return a plan with pod deletion costs."""
    answer = plan_of()
    answer.pod_costs.SetInParent()
    for owner in owners:
        answer.pod_costs.groups.add(owner=owner, complete=True, pods=["default/p"], costs=[-1])
    return answer


def test_pod_costs_are_only_recommended_unless_the_loop_applies_them() -> None:
    setup = Setup(ranked("ReplicaSet/default/web"))
    assert [group.owner for group in setup.run().answer.pod_costs.groups] == ["ReplicaSet/default/web"]
    assert setup.actuator.ranked == []


def test_costs_are_applied_each_round_and_removed_where_a_target_was_dropped() -> None:
    setup = Setup(ranked("a", "b"), apply_pod_costs=True)
    setup.run()
    setup.run()
    setup.planner.answer = ranked("b")
    setup.actuator.ranking = actuator_pb2.ApplyPodCostsResponse(left_count=1)
    setup.run()
    setup.actuator.ranking = actuator_pb2.ApplyPodCostsResponse()
    setup.run()
    setup.run()
    setup.planner.answer = ranked()
    setup.run()
    setup.run()
    # The first round removes costs that an earlier process may have left; an unfinished removal continues.
    wanted = [("ab", True), ("ab", False), ("b", True), ("b", True), ("b", False), ("", True)]
    assert setup.actuator.ranked == [(list(owners), others) for owners, others in wanted]


def test_a_group_that_is_not_complete_is_reported() -> None:
    setup = Setup(ranked("a"), apply_pod_costs=True)
    setup.actuator.ranking.incomplete.add(owner="a", pod_count=3, ranked_count=1, detail="why")
    assert "a: 1 of 3 pods have their cost: why" in setup.run().notes


def with_slack(**asked: int) -> plan_pb2.PlanResponse:
    """Return a plan with slack for CapacityBuffers of these names, and for a Deployment."""
    answer = plan_of()
    answer.slack.SetInParent()
    for name, count in asked.items():
        answer.slack.objects.add(object=f"CapacityBuffer/default/{name}", asked_count=count)
    answer.slack.objects.add(object="Deployment/default/web", asked_count=1)
    return answer


def test_the_status_of_buffers_is_written_when_it_changes_and_again_where_that_failed() -> None:
    setup = Setup(with_slack(a=1))
    setup.run()
    setup.run()
    setup.planner.answer = with_slack(a=2)
    setup.actuator.buffer_answer = actuator_pb2.ApplyBufferStatusResponse(failed_count=1, failures=["default/a: why"])
    assert "the status of a CapacityBuffer is not written: default/a: why" in setup.run().notes
    setup.actuator.buffer_answer = actuator_pb2.ApplyBufferStatusResponse()
    setup.run()
    setup.run()
    setup.planner.answer = with_slack()
    setup.run()
    written = [[(one.object, one.asked_count) for one in call] for call in setup.actuator.buffers]
    assert written == [[("CapacityBuffer/default/a", count)] for count in (1, 2, 2)]
