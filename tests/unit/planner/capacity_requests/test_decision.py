"""What is answered to ProvisioningRequests: all of their room, or none."""

from typing import Any

from tests.builders.capacity_requests import CHECK, condition, plan_requests, pod_template, request
from tests.builders.kubernetes import Json, node, node_group, pod


def group(name: str, cpu: str, most: int = 9, **more: Any) -> Json:
    labels = more.pop("labels", {})
    return node_group(name, 0, most, target=0, template=node("t", cpu, labels=labels), nodes=[], **more)


def test_a_request_that_fits_existing_nodes_is_found() -> None:
    found = plan_requests(node("n1", "4"), pod_template("t"), request("r", ("t", 3), class_name=CHECK))
    assert found.outcomes == {"r": "FOUND"}
    print(found.decision)


def test_a_request_over_two_groups_gets_nodes_of_both() -> None:
    head = pod_template("head", "2", nodeSelector={"pool": "cpu"})
    worker = pod_template("worker", "3", nodeSelector={"pool": "gpu"})
    groups = [group("cpu", "4", labels={"pool": "cpu"}), group("gpu", "4", labels={"pool": "gpu"})]
    found = plan_requests(groups, head, worker, request("r", ("head", 1), ("worker", 4)))
    print(found.decision)
    assert found.outcomes == {"r": "PROVISIONED"}
    assert found.growth == {"cpu": 1, "gpu": 4}


def test_nothing_is_added_for_a_request_that_cannot_be_completed() -> None:
    found = plan_requests(group("g", "4", 2), pod_template("t", "3"), request("r", ("t", 3)))
    print(found.decision)
    assert found.outcomes == {"r": "NOT_FOUND"}
    assert found.growth == {}


def test_booked_room_is_not_used_for_other_pods() -> None:
    from trimtab.v1 import plan_pb2

    D = plan_pb2.Decision
    found = plan_requests(
        node("n1", "4"),
        group("g", "4"),
        pod_template("t", "3"),
        pod("p", "3"),
        request("r", ("t", 1), conditions=[condition("Provisioned")]),
        decisions=(D.CAPACITY_REQUESTS, D.SLACK, D.SCALE_UP, D.SCALE_DOWN, D.REPLACEMENT, D.POD_COSTS),
        settings={"slack": {"extraCapacityMinRate": 0.1}},
    )
    print(found.answer)
    assert found.outcomes == {"r": "BOOKED"}
    assert [s.node_group for s in found.answer.scale_up.splits] == ["g"]


def test_new_nodes_of_requests_count_as_requested_for_others() -> None:
    from trimtab.v1 import plan_pb2

    D = plan_pb2.Decision
    found = plan_requests(
        group("g", "4", 2),
        pod_template("t", "3"),
        pod("p", "1"),
        pod("q", "3"),
        request("r", ("t", 1)),
        decisions=(D.CAPACITY_REQUESTS, D.SLACK, D.SCALE_UP, D.SCALE_DOWN, D.REPLACEMENT, D.POD_COSTS),
    )
    print(found.answer)
    assert found.growth == {"g": 1}
    assert found.answer.scale_up.on_upcoming == {"default/p": "g"}
    (split,) = found.answer.scale_up.splits
    assert (split.current_size, split.new_size) == (1, 2)
