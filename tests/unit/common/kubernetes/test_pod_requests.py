"""A pod's requests as kube-scheduler counts them; the table's cases follow those of component-helpers."""

from typing import Any

import msgspec
import pytest

from trimtab.common.kubernetes.kinds.pods import Pod
from trimtab.common.kubernetes.object_errors import FieldError
from trimtab.common.kubernetes.pod_requests import counts, pod_requests, requests_of_mapping

GI = 2**30


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    resources = {k: v for k, v in {"requests": requests, "limits": limits}.items() if v is not None}
    return {"name": "c", "resources": resources} | more


def sidecar(requests: dict[str, Any]) -> dict[str, Any]:
    return container(requests, restartPolicy="Always", name="s")


def requests_of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec, "status": status or {}}, Pod)
    assert pod.spec is not None
    found = dict(pod_requests(pod.spec, pod.status if status else None))
    if status is None:
        assert requests_of_mapping(spec) == found
    return found


CPU = [
    pytest.param({"containers": [container({"cpu": "1"}), container({"cpu": "250m"})]}, 1250, id="containers add up"),
    pytest.param({"containers": [container({"cpu": "0.5m"})] * 2}, 2, id="each rounded up to milli-cores"),
    pytest.param(
        {"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"}), container({"cpu": "2"})]},
        3000,
        id="the largest init container counts",
    ),
    pytest.param(
        {"containers": [container({"cpu": "1"})], "initContainers": [sidecar({"cpu": "2"})]},
        3000,
        id="sidecars add to containers",
    ),
    pytest.param(
        {
            "containers": [container({"cpu": "1"})],
            "initContainers": [sidecar({"cpu": "2"}), container({"cpu": "3"}), sidecar({"cpu": "1"})],
        },
        5000,
        id="an init container has the sidecars before it beside it",
    ),
    pytest.param(
        {
            "containers": [container({"cpu": "1"})],
            "initContainers": [container({"cpu": "3"}), sidecar({"cpu": "1"})],
        },
        3000,
        id="an init container has not the sidecars after it",
    ),
    pytest.param({"containers": [container(None, {"cpu": "2"})]}, 2000, id="a limit stands in for a request"),
    pytest.param({"containers": [container({"cpu": "1"}, {"cpu": "2"})]}, 1000, id="a request wins over its limit"),
    pytest.param({"containers": [container({"cpu": "0"}, {"cpu": "2"})]}, 0, id="a request of zero is a request"),
    pytest.param({"containers": [container({"cpu": "1"})], "overhead": {"cpu": "50m"}}, 1050, id="overhead is added"),
    pytest.param(
        {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "50m"}, "resources": {"requests": {"cpu": "4"}}},
        4050,
        id="pod-level requests replace the sum, overhead still added",
    ),
    pytest.param(
        {"containers": [container({"cpu": "1"})], "resources": {"limits": {"cpu": "4"}}},
        1000,
        id="with a pod-level limit alone the containers' sum is the request",
    ),
    pytest.param(
        {"containers": [container()], "resources": {"limits": {"cpu": "4"}}},
        4000,
        id="a pod-level limit stands in when no container asks",
    ),
    pytest.param({"containers": [{"name": "c", "resources": None}], "initContainers": None}, 0, id="nulls are nothing"),
]


@pytest.mark.parametrize(("spec", "milli"), CPU)
def test_cpu_is_counted_as_the_scheduler_counts_it(spec: dict[str, Any], milli: int) -> None:
    assert requests_of(spec).get("cpu", 0) == milli


def test_every_resource_the_scheduler_looks_at_is_counted_and_no_other() -> None:
    asked = {
        "cpu": "1",
        "memory": "1Gi",
        "ephemeral-storage": "1.5",
        "nvidia.com/gpu": 2,
        "hugepages-2Mi": "4Mi",
        "attachable-volumes-x": "1",
        "storage": "1Gi",
        "pods": "3",
        "requests.example.org/x": "1",
        "example.org/none": "0",
    }
    assert requests_of({"containers": [container(asked)]}) == {
        "cpu": 1000,
        "memory": GI,
        "ephemeral-storage": 2,
        "nvidia.com/gpu": 2,
        "hugepages-2Mi": 4 * 2**20,
        "attachable-volumes-x": 1,
    }


@pytest.mark.parametrize(
    ("resource", "counted"),
    [("cpu", True), ("hugepages-1Gi", True), ("example.org/fpga", True), ("pods", False), ("storage", False)],
)
def test_names_of_resources_that_count(resource: str, counted: bool) -> None:
    assert counts(resource) is counted


def test_pod_level_resources_leave_extended_resources_to_the_containers() -> None:
    spec = {
        "containers": [container({"example.org/fpga": "1", "memory": "1Gi"})],
        "resources": {"requests": {"example.org/fpga": "7", "memory": "2Gi"}},
    }
    assert requests_of(spec) == {"example.org/fpga": 1, "memory": 2 * GI}


def test_memory_is_added_in_milli_bytes_and_rounded_last() -> None:
    assert requests_of({"containers": [container({"memory": "0.5"})] * 2}) == {"memory": 1}


def test_a_pod_level_default_is_what_the_containers_ask_for_not_what_they_have() -> None:
    spec = {"containers": [container({"cpu": "1"})], "resources": {"limits": {"cpu": "4"}}}
    assert requests_of(spec, {"containerStatuses": [RESIZED]}) == {"cpu": 1000}


def test_huge_pages_limited_in_containers_become_pod_level_requests() -> None:
    spec = {
        "containers": [container({"cpu": "1"}, {"cpu": "1", "hugepages-2Mi": "4Mi"})],
        "resources": {"requests": {"cpu": "2"}},
    }
    assert requests_of(spec) == {"cpu": 2000, "hugepages-2Mi": 4 * 2**20}


RESIZED = {"name": "c", "resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "2"}}


@pytest.mark.parametrize(
    ("status", "milli"),
    [
        pytest.param({"containerStatuses": [RESIZED]}, 3000, id="what a container really has counts if it is more"),
        pytest.param(
            {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1m"}}}]}, 1000, id="not if less"
        ),
        pytest.param(
            {"containerStatuses": [{"name": "other", "resources": {"requests": {"cpu": "9"}}}]}, 1000, id="by name"
        ),
        pytest.param(
            {
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}],
                "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
            },
            500,
            id="an infeasible resize leaves what it has",
        ),
    ],
)
def test_a_resized_pod_takes_what_it_has(status: dict[str, Any], milli: int) -> None:
    assert requests_of({"containers": [container({"cpu": "1"})]}, status)["cpu"] == milli


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        pytest.param(
            {"containers": [container(), container({"cpu": "1x"})]}, "containers[1].resources.requests.cpu", id="c"
        ),
        pytest.param(
            {"initContainers": [container(None, {"memory": ""})]}, "initContainers[0].resources.limits.memory", id="i"
        ),
        pytest.param({"containers": [container({"cpu": "-1"})]}, "containers[0].resources.requests.cpu", id="negative"),
        pytest.param({"overhead": {"cpu": "?"}}, "overhead.cpu", id="overhead"),
        pytest.param({"resources": {"requests": {"cpu": "?"}}}, "resources.requests.cpu", id="pod level"),
    ],
)
def test_a_broken_quantity_is_named_by_its_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as caught:
        requests_of(spec)
    assert caught.value.path == path


def test_a_spec_of_another_form_is_refused_with_the_place() -> None:
    with pytest.raises(FieldError, match=r"containers\[0\]\.resources\.requests"):
        requests_of_mapping({"containers": [container({"cpu": []})]})
