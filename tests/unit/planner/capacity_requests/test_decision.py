"""What is answered to ProvisioningRequests: all of their room, or none."""

from typing import Any

from tests.builders.capacity_requests import CHECK, plan_requests, pod_template, request
from tests.builders.kubernetes import Json, node, node_group


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
