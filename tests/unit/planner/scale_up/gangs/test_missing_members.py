"""Pods of gangs that do not exist yet count only if the settings say so."""

import pytest

from tests.builders.gangs import GangRow, gang_snapshot, members
from tests.builders.kubernetes import node, node_group
from tests.builders.scale_up import NOW_S, settings_of
from trimtab.planner.decisions.plan import plan
from trimtab.planner.round.round import Work
from trimtab.planner.snapshot.decode import canonicalize
from trimtab.v1 import plan_pb2, reason_pb2
from trimtab.v1 import snapshot_pb2 as pb

GROUP = node_group("a", 0, 9, target=0, price=1.0, template=node("t", "4"))


def decided(message: pb.ClusterSnapshot, *, ahead: bool) -> plan_pb2.ScaleUpDecision:
    settings = settings_of({"gangs": {"countMissingMembers": ahead}})
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP], settings=settings)
    request.now.seconds = NOW_S
    return plan(canonicalize(message), request, None, Work()).scale_up


def with_desired(count: int, desired: int) -> pb.ClusterSnapshot:
    message = gang_snapshot([GangRow("g", 8)], members("g", count, "2"), GROUP)
    message.pod_groups[0].desired_count = desired
    return message


def test_missing_pods_are_no_demand_by_default() -> None:
    found = decided(with_desired(2, 8), ahead=False)
    assert (len(found.splits), found.gangs[0].reason) == (0, reason_pb2.GangReason.TOO_FEW_PODS)


def test_missing_pods_get_nodes_ahead_if_asked() -> None:
    found = decided(with_desired(2, 8), ahead=True)
    (split,) = found.splits
    gang = found.gangs[0]
    assert split.new_size == 4
    assert (gang.reason, gang.existing_count, gang.placed_count, gang.ahead_count) == (0, 2, 2, 6)
    assert "default/g (missing 1)" in found.places.pods


def test_no_pod_is_added_beyond_what_the_workload_makes() -> None:
    found = decided(with_desired(2, 6), ahead=True)
    assert (len(found.splits), found.gangs[0].reason) == (0, reason_pb2.GangReason.TOO_FEW_PODS)
    assert found.gangs[0].existing_count == 2


def test_the_snapshot_of_the_answer_is_the_one_that_was_sent() -> None:
    message = with_desired(2, 8)
    settings = settings_of({"gangs": {"countMissingMembers": True}})
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP], settings=settings)
    request.now.seconds = NOW_S
    snapshot = canonicalize(message)
    assert plan(snapshot, request, None, Work()).snapshot_version == snapshot.version


def test_pods_beyond_what_a_plan_counts_are_named_in_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    message = with_desired(2, 8)
    for name in ("h", "i"):
        other = message.pod_groups.add()
        other.CopyFrom(message.pod_groups[0])
        other.name, other.desired_count = name, 3
        other.pod_template.namespace = "default"
    monkeypatch.setattr("trimtab.planner.decisions.simulations.MOST_TOGETHER", 8)
    request = plan_pb2.PlanRequest(decisions=[plan_pb2.Decision.SCALE_UP])
    request.settings.gangs.count_missing_members = True
    request.now.seconds = NOW_S
    planned = plan(canonicalize(message), request, None, Work())
    (note,) = [one for one in planned.summary.notes if "missing pods" in one]
    # Six of the first gang are added, so three of another are too many.
    assert "2 gangs" in note
    assert "default/h, default/i" in note
    assert planned.scale_up.gangs[0].ahead_count == 6
