"""Kueue itself, whose admission check asks by ProvisioningRequests, on a real control plane: a Job starts once the
nodes of all its pods are there; for one that no group can serve no node is ordered, and Kueue sets it aside.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import workloads
from tests.e2e.actuator_process import apply, listed, until
from tests.e2e.control_plane.control_plane import ControlPlane, cached_binaries
from tests.e2e.kueue.kueue_process import kueue
from tests.e2e.rounds_over_plane import Rounds, rounds_over
from trimtab.clients.loop.rounds import RoundSettings
from trimtab.v1 import plan_pb2

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
Json = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"
ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
DEFINITION = Path(__file__).parent / "provisioning-requests.yaml"
DECISIONS = (plan_pb2.Decision.CAPACITY_REQUESTS, plan_pb2.Decision.SCALE_UP)
SLOW_S = 180.0


def queues() -> list[Json]:
    """A queue whose Jobs wait for nodes, with no second attempt."""
    quota = {
        "name": "any",
        "resources": [{"name": "cpu", "nominalQuota": 100}, {"name": "memory", "nominalQuota": "1Ti"}],
    }
    check = {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "whole"},
    }
    specs: dict[tuple[str, str], Json] = {
        ("ResourceFlavor", "any"): {},
        ("ProvisioningRequestConfig", "whole"): {
            "provisioningClassName": ATOMIC, "parameters": {"ValidUntilSeconds": "30"},
            "managedResources": ["cpu"], "retryStrategy": {"backoffLimitCount": 0},
        },
        ("AdmissionCheck", "nodes"): check,
        ("ClusterQueue", "team"): {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [quota]}],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "nodes"}]},
        },
        ("LocalQueue", "team"): {"clusterQueue": "team"},
    }  # fmt: skip
    return [
        {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        if kind == "LocalQueue"
        else {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
        for (kind, name), spec in specs.items()
    ]


def job(name: str, pods: int, pool: str) -> Json:
    """A Job as Kueue's webhook would leave it: suspended."""
    template = workloads.template(name, "3", pool)
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": pods, "completions": pods, "suspend": True, "template": template}
    metadata = {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "team"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def job_of(plane: ControlPlane, name: str) -> Json:
    found: Json = json.loads(plane.kubectl("get", "job", "-n", "default", name, "-o", "json"))
    return found


def conditions(item: Json) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in item.get("status", {}).get("conditions", ())}


def request_of(plane: ControlPlane, name: str) -> dict[str, tuple[str, str]]:
    """Conditions of the request that Kueue has made for a Job."""
    found = [one for one in listed(plane, "provreq") if f"job-{name}-" in one["metadata"]["name"]]
    return conditions(found[-1]) if found else {}


def pods_bound(plane: ControlPlane, name: str) -> int:
    return sum(
        bool(one["spec"].get("nodeName"))
        for one in listed(plane, "pods")
        if one["metadata"]["labels"].get("app") == name
    )


def rounds_until(rounds: Rounds, reached: Callable[[], bool], what: str) -> None:
    def once() -> bool:
        done = rounds.run()
        assert not done.refused, done.refused
        return reached()

    until(once, SLOW_S, what)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Run a control plane on which pods of Jobs run on: Kueue removes the request of a Job that has ended."""
    state, binaries = tmp_path_factory.mktemp("plane"), cached_binaries()
    stages = filter(None, yaml.safe_load_all((binaries / "stages.yaml").read_text()))
    (state / "stages.yaml").write_text(
        yaml.safe_dump_all(one for one in stages if one["metadata"]["name"] != "pod-complete")
    )
    with ControlPlane(binaries, state / "state", stages=[state / "stages.yaml"]) as started:
        yield started


@pytest.mark.timeout(600)
def test_kueue_starts_a_job_once_all_its_nodes_are_there_and_sets_aside_one_that_no_group_serves(
    plane: ControlPlane, tmp_path: Path
) -> None:
    plane.kubectl("create", "-f", str(DEFINITION))
    until(lambda: "provisioningrequests" in plane.kubectl("api-resources"), SLOW_S, "the kind is served")
    plan = plan_pb2.PlanSettings()
    plan.capacity_requests.booking_time.seconds = 600
    groups = [workloads.group("worker", 4, "worker")]
    asked = RoundSettings("e2e", DECISIONS, plan)
    with kueue(plane, tmp_path), rounds_over(plane, tmp_path / "actuator", asked, groups) as rounds:
        apply(plane, *queues())
        until(lambda: all(conditions(one).get("Active", ("",))[0] == "True" for one in listed(plane, "clusterqueues")),
              SLOW_S, "the queue is active")  # fmt: skip
        apply(plane, job("large", 5, "worker"))
        rounds_until(rounds, lambda: "Provisioned" in request_of(plane, "large"), "an answer")
        assert request_of(plane, "large")["Provisioned"] == ("False", "CapacityIsNotFound")
        rounds_until(rounds, lambda: _is_set_aside(plane, "large"), "set aside after its time")
        assert listed(plane, "nodes") == []
        assert job_of(plane, "large")["spec"]["suspend"]

        apply(plane, job("train", 4, "worker"))
        rounds_until(rounds, lambda: not job_of(plane, "train")["spec"]["suspend"], "Kueue starts it")
        assert request_of(plane, "train")["Provisioned"] == ("True", "CapacityIsProvisioned")
        # No round is made: the nodes come, and the scheduler alone binds all pods.
        until(lambda: pods_bound(plane, "train") == 4, SLOW_S, "all pods bound")
        assert len(listed(plane, "nodes")) == 4
        rounds_until(rounds, lambda: "BookingExpired" in request_of(plane, "train"), "the booking ends")
        assert request_of(plane, "train")["BookingExpired"] == ("True", "CapacityBookingConsumed")


def _is_set_aside(plane: ControlPlane, name: str) -> bool:
    """Whether Kueue has deactivated the workload of a Job."""
    found = [one for one in listed(plane, "workloads.kueue.x-k8s.io") if f"job-{name}-" in one["metadata"]["name"]]
    return any(one["spec"].get("active") is False for one in found)
