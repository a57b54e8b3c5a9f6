"""What is answered to ProvisioningRequests: all of their room, or none; what is held, shrinks, ends and goes back."""

from typing import Any

import pytest

from tests.builders.capacity_requests import (
    ATOMIC,
    CHECK,
    CONSUMES,
    NOW_S,
    CapacityOutcomes,
    condition,
    plan_requests,
    pod_template,
    request,
)
from tests.builders.device_objects import claim_template, device_class, gpus
from tests.builders.kubernetes import Json, node, node_group, pod
from trimtab.places import on_new_nodes, on_upcoming
from trimtab.planner.model.settings import SettingsError
from trimtab.v1 import plan_pb2, reason_pb2

Decision = plan_pb2.Decision
EVERY = [code for code in Decision.Code.values() if code]
BOOKED = [condition("Provisioned")]


def group(name: str, cpu: str, most: int = 9, *, labels: Json | None = None, **more: Any) -> Json:
    """Build a group without nodes."""
    return node_group(
        name, more.pop("least", 0), most, target=more.pop("target", 0), nodes=more.pop("nodes", []),
        template=node("t", cpu, labels=labels or {}), **more,
    )  # fmt: skip


def reasons(found: CapacityOutcomes, name: str) -> dict[str, str]:
    return {
        key: reason_pb2.NodeGroupReason.Code.Name(code)
        for key, code in sorted(found.of(name).shortfall.reasons.items())
    }


def test_a_request_that_fits_existing_nodes_is_found() -> None:
    found = plan_requests(node("n1", "4"), pod_template("t"), request("r", ("t", 3), class_name=CHECK))
    assert found.outcomes == {"r": "FOUND"}
    assert found.of("r").booked_until.seconds == NOW_S + 600
    assert found.of("r").detail == "room for 3 pods on nodes: 1 that exists"


def test_a_head_and_workers_come_from_different_groups() -> None:
    head = pod_template("head", "2", nodeSelector={"pool": "cpu"})
    worker = pod_template("worker", "3", nodeSelector={"pool": "gpu"})
    groups = [group("cpu", "4", labels={"pool": "cpu"}), group("gpu", "4", labels={"pool": "gpu"})]
    found = plan_requests(groups, head, worker, request("r", ("head", 1), ("worker", 4)))
    assert found.outcomes == {"r": "PROVISIONED"}
    assert found.growth == {"cpu": 1, "gpu": 4}


def test_a_set_of_pods_is_split_over_groups_that_are_each_too_small() -> None:
    groups = [group(name, "4", 2) for name in ("a", "b", "c")]
    found = plan_requests(groups, pod_template("t", "3"), request("r", ("t", 5)))
    assert found.outcomes == {"r": "PROVISIONED"}
    assert sum(found.growth.values()) == 5


def test_the_cheapest_groups_are_taken_and_the_first_only_as_far_as_they_go() -> None:
    groups = [group("cheap", "4", 2, price=1.0), group("dear", "4", price=5.0), group("large", "16", price=3.0)]
    found = plan_requests(groups, pod_template("t", "3"), request("r", ("t", 7)))
    assert found.growth == {"cheap": 2, "large": 1}
    assert found.decision.price_per_hour == 5.0


def test_nothing_is_added_for_a_request_that_cannot_be_completed() -> None:
    found = plan_requests(group("g", "4", 2), pod_template("t", "3"), request("r", ("t", 3)))
    assert found.outcomes == {"r": "NOT_FOUND"}
    assert found.growth == {}
    assert reasons(found, "r") == {"g": "MAX_SIZE_REACHED"}
    assert found.of("r").detail == (
        "3 of 3 pods have no room on nodes: there is none that may take pods; the one node group that helps may get 2 "
        "more nodes at most, which do not hold all of them"
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        pytest.param({"scaleUp": {"maxNewNodes": 2}}, "MAX_NEW_NODES_REACHED", id="nodes of a plan"),
        pytest.param(
            {"planner": {"limits": [{"resource": "cpu", "maximum": "8000"}]}}, "RESOURCE_LIMIT_REACHED", id="quota"
        ),
    ],
)
def test_what_keeps_a_group_from_growing_further_is_said(settings: Json, reason: str) -> None:
    found = plan_requests(group("g", "4"), pod_template("t", "3"), request("r", ("t", 3)), settings=settings)
    assert found.outcomes == {"r": "NOT_FOUND"}
    assert reasons(found, "r") == {"g": reason}


def test_a_quota_leaves_room_in_groups_that_use_less_of_it() -> None:
    limits = {"planner": {"limits": [{"resource": "nodes", "maximum": 2, "nodes": {"matchLabels": {"pool": "a"}}}]}}
    groups = [group("a", "4", labels={"pool": "a"}, price=1.0), group("b", "4", labels={"pool": "b"}, price=2.0)]
    found = plan_requests(groups, pod_template("t", "3"), request("r", ("t", 5)), settings=limits)
    assert found.growth == {"a": 2, "b": 3}


def test_an_all_or_nothing_group_grows_whole_and_others_take_the_rest() -> None:
    slice_of = node_group("slice", 0, 4, target=0, nodes=[], template=node("t", "4"), zero_or_max=True)
    found = plan_requests(slice_of, group("g", "4", 2), pod_template("t", "3"), request("r", ("t", 5)))
    assert found.outcomes == {"r": "PROVISIONED"}
    assert found.growth == {"g": 1, "slice": 4}


def test_requests_of_higher_priority_come_first_then_older_ones() -> None:
    made = [
        pod_template("t", "3"),
        pod_template("important", "3", priority=10),
        request("young", ("t", 1), created="2027-01-15T07:59:30Z", class_name=CHECK),
        request("old", ("t", 1), created="2027-01-15T07:00:00Z", class_name=CHECK),
        request("important", ("important", 1), created="2027-01-15T07:59:50Z", class_name=CHECK),
    ]
    two = plan_requests([node("n1", "4"), node("n2", "4")], made)
    assert two.outcomes == {"important": "FOUND", "old": "FOUND", "young": "NOT_FOUND"}
    assert plan_requests(node("n1", "4"), made).outcomes["old"] == "NOT_FOUND"


def test_room_of_an_earlier_request_is_not_given_to_a_later_one() -> None:
    made = [request("a", ("t", 2), conditions=BOOKED, class_name=CHECK), request("b", ("t", 2), class_name=CHECK)]
    found = plan_requests(node("n1", "3"), pod_template("t"), made)
    assert found.outcomes == {"a": "BOOKED", "b": "NOT_FOUND"}


def test_a_booking_shrinks_as_its_pods_start_and_ends_with_the_last() -> None:
    def plan_with(started: int) -> CapacityOutcomes:
        pods = [pod(f"p{at}", "1", node="n1", annotations={CONSUMES: "a"}) for at in range(started)]
        made = [request("a", ("t", 2), conditions=BOOKED, class_name=CHECK), request("b", ("t", 1), class_name=CHECK)]
        return plan_requests(node("n1", "3"), pods, pod_template("t"), made)

    assert [plan_with(count).of("a").booked_count for count in (0, 1, 2)] == [2, 1, 0]
    assert [plan_with(count).outcomes["b"] for count in (0, 1, 2)] == ["FOUND"] * 3
    assert plan_with(2).outcomes["a"] == "CONSUMED"


def test_pods_of_a_set_take_its_room_though_a_queue_has_changed_their_selectors() -> None:
    sets = [pod_template("small", "1"), pod_template("large", "2")]
    started = [pod("p", "2", "1Gi", node="n1", node_selector={"pool": "x"}, annotations={CONSUMES: "a"})]
    found = plan_requests(
        node("n1", "8", labels={"pool": "x"}),
        sets,
        started,
        request("a", ("small", 2), ("large", 1), conditions=BOOKED),
    )
    assert {place.pod_set: place.pod_count for place in found.of("a").places} == {0: 2}


def test_a_booking_ends_after_its_time_and_seeking_after_what_the_request_says() -> None:
    made = [
        request("booked", ("t", 1), conditions=[condition("Provisioned", at="2027-01-15T07:49:00Z")]),
        request("seeking", ("t", 1), created="2027-01-15T07:58:00Z", parameters={"ValidUntilSeconds": "60"}),
        request("patient", ("t", 1), created="2027-01-15T07:58:00Z", parameters={"ValidUntilSeconds": "600"}),
    ]
    found = plan_requests(pod_template("t"), made)
    assert found.outcomes == {"booked": "BOOKING_EXPIRED", "seeking": "EXPIRED", "patient": "NOT_FOUND"}
    later = plan_requests(pod_template("t"), made, settings={"capacityRequests": {"bookingTime": "3600s"}})
    assert later.outcomes["booked"] == "REVOKED"


def test_a_booking_whose_nodes_are_gone_gets_others_or_is_revoked() -> None:
    made = [pod_template("t", "3"), request("r", ("t", 2), conditions=BOOKED)]
    with_others = plan_requests(node("n1", "4"), group("g", "4"), made)
    assert (with_others.outcomes, with_others.growth) == ({"r": "BOOKED"}, {"g": 1})
    without = plan_requests(node("n1", "4"), made)
    assert without.outcomes == {"r": "REVOKED"}
    assert not without.of("r").places


def test_a_booking_stays_while_its_node_is_not_ready() -> None:
    found = plan_requests(
        node("n1", "4", ready=False), pod_template("t", "3"), request("r", ("t", 1), conditions=BOOKED)
    )
    assert found.outcomes == {"r": "BOOKED"}


def test_booked_room_is_not_used_for_other_pods_and_holds_its_node() -> None:
    objects = [
        node("n1", "4"), node_group("g", 0, 9, target=1, nodes=["n1"], template=node("t", "4")),
        pod_template("t", "3"), pod("p", "3"),
    ]  # fmt: skip
    booked = [*objects, request("r", ("t", 1), conditions=BOOKED)]
    settings: Json = {"slack": {"extraCapacityMinRate": 0.1}}
    found = plan_requests(booked, decisions=EVERY, settings=settings)
    (split,) = found.answer.scale_up.splits
    assert (split.node_group, split.new_size, on_new_nodes(found.answer.scale_up)["g"]) == ("g", 2, ["default/p"])
    assert [one.node for one in found.answer.scale_down.unneeded] == []
    alone = plan_requests([one for one in booked if one["kind"] != "Pod"], decisions=EVERY)
    assert [one.node for one in alone.answer.scale_down.unneeded] == []
    free = plan_requests([one for one in objects if one["kind"] != "Pod"], decisions=EVERY)
    assert [one.node for one in free.answer.scale_down.unneeded] == ["n1"]


def test_new_nodes_of_requests_count_as_requested_for_other_decisions() -> None:
    found = plan_requests(
        group("g", "4", 2), pod_template("t", "3"), pod("p", "1"), pod("q", "3"), request("r", ("t", 1)),
        decisions=EVERY,
    )  # fmt: skip
    assert found.growth == {"g": 1}
    assert on_upcoming(found.answer.scale_up) == {"default/p": "g"}
    (split,) = found.answer.scale_up.splits
    assert (split.current_size, split.new_size) == (1, 2)


def test_pods_that_wait_for_their_request_ask_for_no_nodes_until_it_is_gone() -> None:
    waiting = pod("p", "3", annotations={CONSUMES: "r"})
    made = [group("g", "4"), pod_template("t", "3"), waiting]
    held = plan_requests(made, request("r", ("t", 1)), decisions=EVERY)
    assert {one.pod: one.reason for one in held.answer.scale_up.skipped} == {
        "default/p": reason_pb2.SkippedPodReason.CAPACITY_REQUESTED
    }
    assert not held.answer.scale_up.splits
    for conditions in ([condition("Failed")], [condition("Provisioned"), condition("BookingExpired")]):
        gone = plan_requests(made, request("r", ("t", 1), conditions=conditions), decisions=EVERY)
        assert [split.node_group for split in gone.answer.scale_up.splits] == ["g"]
    assert plan_requests(made, decisions=EVERY).answer.scale_up.splits


def test_a_request_is_provisioned_only_once_its_nodes_are_ready_if_asked() -> None:
    settings: Json = {"capacityRequests": {"provisionedWhen": "READY"}}
    made = [pod_template("t", "3"), request("r", ("t", 2))]
    ordered = plan_requests(group("g", "4"), made, settings=settings)
    assert (ordered.outcomes, ordered.growth) == ({"r": "COMING"}, {"g": 2})
    coming = plan_requests(group("g", "4", target=2), made, settings=settings)
    assert (coming.outcomes, coming.growth) == ({"r": "COMING"}, {})
    there = plan_requests(
        node("n1", "4"), node("n2", "4"), group("g", "4", target=2, nodes=["n1", "n2"]), made, settings=settings
    )
    assert there.outcomes == {"r": "FOUND"}


def test_nodes_that_cannot_complete_a_request_go_back_at_once() -> None:
    state = plan_pb2.PlanState()
    order = state.capacity_requests.orders.add(name="default/r", uid="uid-r", node_group="g", count=2)
    order.order_time.seconds = NOW_S - 300
    came = node("came", "4", created="2027-01-15T07:58:00Z")
    before = node("before", "4", created="2027-01-01T00:00:00Z")
    made = [pod_template("t", "3"), request("r", ("t", 5))]
    groups = node_group("g", 0, 3, target=2, nodes=["came", "before"], template=node("t", "4"))
    found = plan_requests(came, before, groups, made, state=state)
    assert found.outcomes == {"r": "NOT_FOUND"}
    assert list(found.decision.release.nodes) == ["came"]
    used = plan_requests(came, before, groups, made, pod("p", "1", node="came"), state=state)
    assert list(used.decision.release.nodes) == []
    wanted = plan_requests(came, before, groups, made, pod("p", "3"), pod("q", "3"), state=state)
    assert list(wanted.decision.release.nodes) == []
    others = plan_requests(came, before, groups, group("h", "4"), made, state=state)
    assert (others.outcomes, list(others.decision.release.nodes)) == ({"r": "PROVISIONED"}, [])


def test_other_classes_and_instances_are_left_alone() -> None:
    made = [
        pod_template("t"),
        request("theirs", ("t", 1), class_name="queued-provisioning.gke.io"),
        request("check", ("t", 1), class_name=CHECK),
        request("atomic", ("t", 1), class_name=ATOMIC),
        request("instance", ("t", 1), class_name=CHECK, parameters={"processorInstance": "x"}),
    ]
    assert set(plan_requests(made).outcomes) == {"check", "atomic"}
    own: Json = {"classes": [{"name": "queued-provisioning.gke.io", "kind": "ATOMIC_SCALE_UP"}]}
    assert set(plan_requests(made, settings={"capacityRequests": own}).outcomes) == {"theirs"}
    instance: Json = {"capacityRequests": {"processorInstance": "x"}}
    assert set(plan_requests(made, settings=instance).outcomes) == {"instance"}
    off = plan_requests(made, settings={"capacityRequests": {"enabled": False}})
    assert off.decision.result == reason_pb2.CapacityRequestsResult.CAPACITY_REQUESTS_NOT_TRIED


def test_wrong_settings_are_refused_with_their_name() -> None:
    for given, field in (
        ({"classes": [{"name": "a"}]}, r"classes\[0\].kind"),
        ({"classes": [{"kind": "CHECK_CAPACITY"}]}, r"classes\[0\].name"),
        ({"classes": [{"name": "a", "kind": "CHECK_CAPACITY"}] * 2}, r"classes\[1\].name"),
        ({"bookingTime": "0s"}, "booking_time"),
    ):
        with pytest.raises(SettingsError, match=f"capacity_requests.{field}"):
            plan_requests(settings={"capacityRequests": given})


def test_a_request_that_cannot_be_read_says_object_field_and_what_follows() -> None:
    found = plan_requests(
        pod_template("empty") | {"template": {"spec": {}}},
        request("missing", ("nowhere", 1)),
        request("none", ("t", 0)),
        request("broken", ("empty", 1)),
        request("period", ("t", 1), parameters={"ValidUntilSeconds": "soon"}),
        pod_template("t"),
    )
    details = {one.name: one.detail for one in found.decision.requests}
    assert set(found.outcomes.values()) == {"INVALID"}
    assert "spec.podSets[0].podTemplateRef.name: there is no PodTemplate default/nowhere" in details["missing"]
    assert "spec.podSets[0].count: 0 is not a number of pods" in details["none"]
    assert "PodTemplate default/empty cannot be read" in details["broken"]
    assert "spec.parameters.ValidUntilSeconds: 'soon' is not a number of seconds" in details["period"]
    assert all(detail.startswith(f"ProvisioningRequest default/{name}: ") for name, detail in details.items())
    assert all(detail.endswith("until then, no room is sought for it") for detail in details.values())


@pytest.mark.parametrize(
    ("devices", "outcome"),
    [
        ([], "NOT_FOUND"),
        ([device_class("gpu"), gpus("n1", 2)], "NOT_FOUND"),
        ([device_class("gpu"), gpus("n1", 3)], "FOUND"),
    ],
)
def test_pods_of_a_request_that_claim_devices_need_them(devices: list[Json], outcome: str) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    asked = [claim_template("one-gpu"), pod_template("t", resourceClaims=claims), request("r", ("t", 3))]
    assert plan_requests(node("n1", "8"), devices, asked).outcomes == {"r": outcome}


def test_without_requests_nothing_is_simulated_and_nothing_changes() -> None:
    objects = [node("n1", "4"), group("g", "4"), pod("p", "3"), pod("q", "3")]
    rest = [code for code in EVERY if code != Decision.CAPACITY_REQUESTS]
    found, without = plan_requests(objects, decisions=EVERY), plan_requests(objects, decisions=rest)
    assert found.decision.result == reason_pb2.CapacityRequestsResult.CAPACITY_REQUESTS_NONE
    assert found.answer.scale_up == without.answer.scale_up
    assert found.answer.scale_down == without.answer.scale_down


def test_requests_beyond_the_pods_that_a_plan_serves_get_no_room_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.planner.capacity_requests.requests.MOST_PODS", 3)
    sets = [request("a-large", ("one", 40), class_name=CHECK), request("b-small", ("one", 2), class_name=CHECK)]
    found = plan_requests(node("n1", "8"), pod_template("one"), *sets)
    assert found.outcomes == {"a-large": "NOT_FOUND", "b-small": "FOUND"}
    assert "a plan seeks room for" in found.of("a-large").detail
