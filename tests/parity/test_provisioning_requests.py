"""Every case of the Cluster Autoscaler's tests of ProvisioningRequests, restated as data: the same requests get room.

Where upstream's limits of a loop decide (one request a loop, batches, back-off), `beyond` says what is different.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.builders.capacity_requests import CONSUMES, NOW_S, condition, plan_requests, pod_template, request
from tests.builders.kubernetes import Json, node, node_group, pod

DATA = json.loads((Path(__file__).parent / "data" / "provisioning_requests.json").read_text())
CASES, LIVES, REQUESTS = DATA["cases"], DATA["lives"], DATA["requests"]
PROVISIONED = {"FOUND", "PROVISIONED", "BOOKED"}


def cluster() -> list[Json]:
    (group,), others = DATA["cluster"]["groups"], DATA["cluster"]["others"]
    members = [f"test-cpu-node-{at}" for at in range(group["nodes"])]
    nodes = [node(name, group["cpu"], group["memory"]) for name in members]
    nodes += [node(f"test-mem-node-{at}", others["cpu"], others["memory"]) for at in range(others["nodes"])]
    template = node("t", group["cpu"], group["memory"])
    return [*nodes, node_group(group["name"], group["min"], group["max"], nodes=members, template=template)]


def time(seconds_ago: int) -> str:
    return datetime.fromtimestamp(NOW_S - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def class_name(name: str) -> str:
    return f"{name}.autoscaling.x-k8s.io" if name in ("check-capacity", "best-effort-atomic-scale-up") else name


def objects(name: str, given: Json) -> list[Json]:
    template = f"t-{name.lower()}"
    made = request(
        name.lower(),
        (template, given["count"]),
        class_name=class_name(given["class"]),
        parameters=given.get("parameters"),
        conditions=[condition(kind) for kind in given.get("conditions", ())],
    )
    return [pod_template(template, given["cpu"], given["memory"]), made]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_requests_get_room_as_in_the_cluster_autoscaler(case: dict[str, Any]) -> None:
    made = [one for name in case["requests"] for one in objects(name, REQUESTS[name])]
    groups = [
        node_group(one["name"], 0, one["max"], target=0, nodes=[], template=node("t", one["cpu"], one["memory"]))
        for one in case.get("groups", ())
    ]
    found = plan_requests(cluster(), groups, made)
    outcomes = list(found.outcomes.values())
    got = found.outcomes.get((case["evaluated"] or "").lower())
    match case["upstream"]:
        case "ScaleUpNotTried":
            assert got is None
        case "ScaleUpNoOptionsAvailable":
            assert got in {"NOT_FOUND", "FAILED"}
            assert not found.growth
        case "ScaleUpNotNeeded":
            assert (got, found.growth) == ("FOUND", {})
        case "ScaleUpSuccessful":
            assert got in {"FOUND", "PROVISIONED"}
    assert found.growth == case.get("growth", {})
    assert outcomes.count("FAILED") == case.get("failed", 0)
    if "beyond" in case:
        assert sum(one in PROVISIONED for one in outcomes) > case["provisioned"]
    elif "maxBatchSize" in case:
        assert sum(one in PROVISIONED for one in outcomes) == case.get("provisioned", 0)
        assert outcomes.count("NOT_FOUND") == case.get("notProvisioned", 0)


@pytest.mark.parametrize("case", LIVES, ids=lambda case: case["name"])
def test_conditions_time_and_pods_say_what_becomes_of_a_request(case: dict[str, Any]) -> None:
    count, started = 2, case.get("started", 0)
    pods = [pod(f"p{at}", "1", "0", node="n1", annotations={CONSUMES: "pr"}) for at in range(started)]
    made = request(
        "pr",
        ("t", count),
        class_name=class_name(case["class"]),
        created=time(case["ageSeconds"]),
        parameters={"processorInstance": case["processorInstance"]} if "processorInstance" in case else None,
        conditions=[condition(kind, status, time(ago)) for kind, status, ago in case["conditions"]],
    )
    found = plan_requests(node("n1", "10", "10Gi"), pods, pod_template("t", "1", "0"), made)
    assert found.outcomes.get("pr") == case["outcome"]
    if "booked" in case:
        assert found.of("pr").booked_count == case["booked"]


def test_what_is_different_from_the_cluster_autoscaler_is_said() -> None:
    assert len(CASES) == 24
    assert [case["name"] for case in (*CASES, *LIVES) if "beyond" in case and not case["beyond"]] == []
